"""A refresh that is hurt loses nothing, as a crawl does not, and tells each change."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from .damage import damages, finished_crawl, hurt
from .image import choose, revive
from .killing import Moment, kill_at, record
from .scene import Scene

MOMENTS = (
    Moment(1, "after sync ledger/pages-1.columns"),  # the new ledger is there, and does not count yet
    Moment(4, "before sync journal"),
    Moment(1, "before rename changes.atom"),
)


def test_a_kill_in_a_refresh_loses_nothing(lively_scene: Scene) -> None:
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(lambda moment: kill_at(lively_scene, [moment]), MOMENTS))
    assert [verdict for verdict, _ in judged if verdict.flaws] == []
    assert sum(kills for _, kills in judged) == len(MOMENTS)


def test_a_power_cut_in_a_refresh_loses_nothing(lively_scene: Scene) -> None:
    operations = record(lively_scene)
    images = choose(operations, 3, random.Random(5))
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(lambda image: revive(lively_scene, operations, image), images))
    assert [verdict for verdict in judged if verdict.flaws] == []


def test_a_damaged_page_table_is_reported_and_rebuilt(lively_scene: Scene) -> None:
    rng = random.Random(5)
    whole = finished_crawl(lively_scene)
    ledger = [damage for damage in damages(whole, rng) if damage.name.startswith("ledger/")]
    assert len(ledger) == 6, "a snapshot and a log, each in three ways"
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(lambda damage: hurt(lively_scene, whole, damage, finished=True), rng.sample(ledger, 2)))
    assert [verdict for verdict in judged if verdict.flaws] == []
