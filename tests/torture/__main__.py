"""`make torture`: all of it, from one seed, within the time that is given.

`python -m torture --seed 1 --minutes 40 [--only images,damage]`. Each part is a list of
cases in an order that follows from the seed; parts take turns on a few threads, so
that whatever the time allows is a fair sample. Exits 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bytecode import keep_bytecode

from . import damage, faults, image, killing, versions
from .judging import Flaw
from .killing import Moment
from .patience import patient_scene
from .recording import Operation
from .refreshed import FEED, refreshed_scene
from .scene import DELAY, Scene, scene
from .scoreboard import Scoreboard
from .shim import NoShim, library

Job = Callable[[], None]
PARTS = ("kills", "random", "images", "damage", "faults", "refresh", "upkeep")


def main() -> int:
    words = argparse.ArgumentParser(prog="torture", description=__doc__)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--minutes", type=float, default=40.0)
    words.add_argument("--jobs", type=int, default=4, help="cases at the same time")
    words.add_argument("--only", default=",".join(PARTS))
    words.add_argument("--kills", type=int, default=215, help="at chosen moments of a crawl")
    words.add_argument("--random-kills", type=int, default=180)
    words.add_argument("--images", type=int, default=150, help="of a crawl")
    words.add_argument("--refresh-kills", type=int, default=60)
    words.add_argument("--refresh-images", type=int, default=56)
    words.add_argument("--upkeep-kills", type=int, default=60, help="of refreshes of a changing web")
    words.add_argument("--keep", type=Path, help="where to keep what went wrong")
    asked = words.parse_args()
    keep_bytecode()
    try:
        library()
    except NoShim as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 1
    scratch = asked.keep or Path(tempfile.mkdtemp(prefix="torture-"))
    scratch.mkdir(parents=True, exist_ok=True)
    print(f"seed {asked.seed}, {asked.minutes:.0f} minutes; what goes wrong is kept in {scratch}", flush=True)
    board = Scoreboard(scratch / "log.txt")
    until = time.monotonic() + 60 * asked.minutes
    with ExitStack() as stack:
        small = stack.enter_context(scene(scratch / "small"))
        slow = stack.enter_context(patient_scene(scratch / "slow"))
        lively = stack.enter_context(refreshed_scene(scratch / "lively"))
        rng = random.Random(asked.seed)
        parts = {
            "kills": lambda: chosen_kills(small, board, rng, asked.kills),
            "random": lambda: random_kills(slow, board, rng, asked.random_kills),
            "images": lambda: images(small, board, rng, asked.images),
            "damage": lambda: damages(small, board, rng),
            "faults": lambda: troubles(small, board),
            "refresh": lambda: refreshes(lively, board, rng, asked.refresh_kills, asked.refresh_images),
            "upkeep": lambda: upkeep_kills(scratch, board, rng, asked.upkeep_kills),
        }
        jobs = list(interleaved([list(parts[part]()) for part in asked.only.split(",")]))
        left = play(jobs, asked.jobs, until)
        small.meadow.stop()
        slow.meadow.stop()
        lively.meadow.stop()
        for each in (small, lively):
            gaps = each.gaps(DELAY)
            board.blame("politeness", Flaw.GAP, sum(gaps.values()), f"gaps {gaps}")
        short = slow.gaps_to_patient_hosts()
        board.blame("politeness", Flaw.GAP, sum(short.values()), f"gaps {short}")
    print(board.table())
    if left:
        print(f"the time was over: {left} of {len(jobs)} cases were not tried")
    return 0 if board.flawless else 1


def play(jobs: list[Job], threads: int, until: float) -> int:
    """Do the jobs until the time is over; returns how many were not begun."""
    left = 0

    def one(job: Job) -> None:
        nonlocal left
        if time.monotonic() < until:
            job()
        else:
            left += 1

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(one, jobs):
            pass
    return left


def interleaved(parts: list[list[Job]]) -> Iterator[Job]:
    """All jobs, each part spread evenly over the whole."""
    places = [(number / len(part), job) for part in parts for number, job in enumerate(part)]
    return (job for _, job in sorted(places, key=lambda place: place[0]))


def chosen_kills(small: Scene, board: Scoreboard, rng: random.Random, wanted: int) -> Iterator[Job]:
    """First every kind of moment, in a crawl and in a resume after a kill; then moments at random."""
    all_of_it = killing.count_moments(small)
    often = sorted(killing.kinds(killing.record(small)).items())
    # The index is ahead of the journal, and old enough to have merged: much has to be taken back.
    commits = dict(often)["after rename index/shard-*/*/meta.json"] // 2
    committed = Moment(max(3, commits // 2 - 1), "after rename index/shard-0/*/meta.json")
    resumed = killing.record(small, resumed_after=committed)
    cases = [[Moment(rng.randint(1, max(1, count * 2 // 3)), kind)] for kind, count in often]
    cases += [[committed, Moment(1, kind)] for kind in sorted(killing.kinds(resumed))]
    rng.shuffle(cases)
    while sum(map(len, cases)) < wanted:
        first = Moment(rng.randrange(1, all_of_it), only_self=rng.random() < 0.3)
        cases.append([first, Moment(rng.randrange(1, 200))] if rng.random() < 0.3 else [first])
    kept: list[list[Moment]] = []
    while sum(map(len, kept)) < wanted:
        kept.append(cases[len(kept)])

    def job(moments: list[Moment]) -> Job:
        return lambda: board.note("kills at chosen moments", *killing.kill_at(small, moments))

    return map(job, kept)


def random_kills(slow: Scene, board: Scoreboard, rng: random.Random, wanted: int) -> Iterator[Job]:
    series = 20

    def job(seed: int) -> Job:
        return lambda: board.note("kills at random", *killing.kill_randomly(slow, random.Random(seed), series))

    return (job(rng.getrandbits(32)) for _ in range(-(-wanted // series)))


def upkeep_kills(scratch: Path, board: Scoreboard, rng: random.Random, wanted: int) -> Iterator[Job]:
    series = 30

    def job(seed: int) -> Job:
        room, kind = scratch / f"upkeep-{seed}", "kills at random of refreshes"
        return lambda: board.note(kind, *versions.kill_refreshes(room, seed, series))

    return (job(rng.getrandbits(32)) for _ in range(-(-wanted // series)))


def images(small: Scene, board: Scoreboard, rng: random.Random, wanted: int) -> Iterator[Job]:
    """Cuts all through a crawl, from the making of its directory to its end."""
    fresh = killing.record(small)

    def job(operations: list[Operation], one: image.Image) -> Job:
        return lambda: board.note("images of power cuts", image.revive(small, operations, one))

    return (job(fresh, one) for one in image.choose(fresh, wanted, rng))


def damages(small: Scene, board: Scoreboard, rng: random.Random) -> Iterator[Job]:
    """Of a crawl that was killed, every second file in one way; see `refreshes` for all files in all ways."""
    killed = damage.killed_crawl(small, Moment(3, "after sync journal"))

    def job(one: damage.Damage) -> Job:
        return lambda: board.note("damaged files", damage.hurt(small, killed, one, finished=False))

    by_file: dict[str, list[damage.Damage]] = {}
    for one in damage.damages(killed, rng):
        by_file.setdefault(one.name, []).append(one)
    cases = [rng.choice(ways) for ways in by_file.values()]
    rng.shuffle(cases)
    return map(job, cases[::2])


def refreshes(lively: Scene, board: Scoreboard, rng: random.Random, kills: int, cuts: int) -> Iterator[Job]:
    """All of it once more, for a crawl that is refreshed."""
    recorded = killing.record(lively)
    often = sorted(killing.kinds(recorded).items())
    rng.shuffle(often)
    new = [one for one in often if "ledger" in one[0] or FEED in one[0]]
    moments = [Moment(rng.randint(1, count), kind) for kind, count in dict([*new, *often]).items()][:kills]
    killed = damage.killed_crawl(lively, Moment(3, "after sync journal"))
    whole = damage.finished_crawl(lively)
    hurt = [(killed, one, False, False) for one in damage.damages(killed, rng) if one.is_of_a_refresh]
    hurt += [
        (whole, one, True, not one.is_of_a_refresh and rng.random() < 0.5)
        for one in damage.damages(whole, rng, second_names=False)
    ]
    rng.shuffle(hurt)

    def kill(moment: Moment) -> Job:
        return lambda: board.note("kills in a refresh", *killing.kill_at(lively, [moment]))

    def cut(one: image.Image) -> Job:
        return lambda: board.note("power cuts in a refresh", image.revive(lively, recorded, one))

    def damaged(home: Path, one: damage.Damage, done: bool, resumed: bool) -> Job:
        verdict = partial(damage.hurt, lively, home, one, finished=done, resumed=resumed)
        return lambda: board.note("damaged files of a refreshed crawl", verdict())

    def trouble(case: faults.Case) -> Job:
        return lambda: board.note("disk, network, clock, signals in a refresh", case(lively))

    return interleaved(
        [
            [kill(moment) for moment in moments],
            [cut(one) for one in image.choose(recorded, cuts, rng)],
            [damaged(*one) for one in hurt],
            [trouble(case) for _, case in faults.cases_of_a_refresh()],
        ]
    )


def troubles(small: Scene, board: Scoreboard) -> Iterator[Job]:
    def job(case: faults.Case) -> Job:
        return lambda: board.note("disk, network, DNS, clock, signals", case(small))

    return (job(case) for _, case in faults.cases())


if __name__ == "__main__":
    sys.exit(main())
