"""Killed just before or after what makes things durable, a crawl goes on as if nothing had been."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from .killing import Moment, count_moments, kill_at
from .scene import Scene


def test_a_kill_at_a_chosen_moment_loses_nothing(meadow_scene: Scene) -> None:
    rng = random.Random(8)
    all_of_it = count_moments(meadow_scene)
    cases = [[Moment(rng.randrange(1, all_of_it))] for _ in range(3)]
    cases += [[Moment(rng.randrange(1, all_of_it), only_self=True)] for _ in range(1)]
    # And once more while it recovers: the first hundred moments of a resume are its opening.
    cases += [[Moment(rng.randrange(1, all_of_it)), Moment(rng.randrange(1, 100))] for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(lambda moments: kill_at(meadow_scene, moments), cases))
    assert [verdict for verdict, _ in judged if verdict.flaws] == []
    assert sum(kills for _, kills in judged) >= 6


def test_a_kill_during_index_rollback_keeps_the_crawl_usable(meadow_scene: Scene) -> None:
    """The index is a checkpoint ahead of the journal; the resume that takes it back is killed in doing so."""
    # The index is made, committed empty, and then with the first pages: that comes on any machine.
    ahead = Moment(3, "after rename index/shard-0/*/meta.json")
    verdict, kills = kill_at(meadow_scene, [ahead, Moment(1, "after * index/shard-0/*")])
    assert not verdict.flaws, verdict
    assert kills == 2
