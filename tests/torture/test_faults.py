"""A broken disk, a lost network and damaged files: what is ours costs no page, and doctor knows."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from .damage import Way, damages, finished_crawl, hurt
from .faults import cases
from .scene import Scene

TRIED = (
    "EIO for a while, archive/*.warc.gz",
    "no network for a while (ENETUNREACH)",
    "SIGTERM to the group once it runs",
)


def test_local_faults_lose_no_page(meadow_scene: Scene) -> None:
    chosen = [case for name, case in cases() if name in TRIED]
    assert len(chosen) == len(TRIED)
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(lambda case: case(meadow_scene), chosen))
    assert [verdict for verdict in judged if verdict.flaws] == []


def test_damaged_data_is_tolerated_refused_or_reported(meadow_scene: Scene) -> None:
    rng = random.Random(8)
    whole = finished_crawl(meadow_scene)
    every = list(damages(whole, rng))
    assert {damage.name for damage in every if damage.way is Way.DELETE} == {
        str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file()
    }
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(lambda damage: hurt(meadow_scene, whole, damage, finished=True), rng.sample(every, 4)))
    assert [verdict for verdict in judged if verdict.flaws] == []
