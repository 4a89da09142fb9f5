"""A web that changes all the time, and refreshes of a crawl of it that are killed again and again.

The meadow's changes follow from its seed, so what any page was at any moment can be asked
afterwards (`was`). Refreshes have a budget and are ended with SIGKILL, all processes or one; the last
one is a whole round, undisturbed. `versions` judges what is left.
"""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fieldmouse.refresh.page_table import read_page_table
from fieldmouse.storage.checkpoint import decode_checkpoint, read_checkpoint
from fieldmouse.storage.checkpoint_log import whole_record_at
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import FRAME
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.paths import parse_path
from fieldmouse.testing.meadow.server import Arrival
from fieldmouse.url import Url, host_of, path_of
from meadowland import RunningMeadow, running_meadow

from .judging import Flaw, Verdict, bad
from .killing import children, kill
from .scene import PATIENCE, Said, contact, end, launch, run

BUDGET = 25.0  # polls a second
CHECKPOINT = 0.3
SETTINGS = {
    "storage.checkpoint": f"{CHECKPOINT * 1000:.0f}ms",
    "politeness.delay": "0s",
    "politeness.backoff": "50ms",
    "politeness.patience": "0.02",
    "archive.warc_size": "400KB",
    "index.shards": "2",
    "refresh.retry": "20s",
}
CHANGING: dict[str, Any] = {
    "hosts": 8,
    "pages": 160,
    "gamma": 0.4,
    "seed": 21,
    "page_kb": 2,
    "links": 15,
    "latency": 0.01,
    "changing": 0.9,
    "change_every": 20.0,
    "change_sigma": 1.0,
    "rewriting": True,
    "noise": 0.1,
    "appearing": 0.1,
    "vanishing": 0.1,
    "moving": 0.1,
    "staying": 30.0,
    "duplicates": 0.0,
    "redirects": 0.05,
    "not_found": 0.05,
    "broken": 0.0,
    "server_error": 0.0,
    "busy": 0.0,
    "traps": 0.0,
}
"""Half of the pages change more than three times a minute."""

REVISION = re.compile(rb"Revision (\d+)\.")


class Shown(NamedTuple):
    """What a page was at some moment."""

    status: int
    revision: int | None  # None if it is no page that says so


@dataclass
class ChangingScene:
    """The running meadow, and the same one to be asked what it showed when."""

    meadow: RunningMeadow
    scratch: Path
    twin: Meadow
    changes: Path
    rooms: int = 0

    def room(self) -> Path:
        self.rooms += 1
        room = self.scratch / f"upkeep-{self.rooms:04}"
        room.mkdir(parents=True)
        return room

    def was(self, url: str, at: float) -> Shown:
        answer = self.twin.respond(host_of(Url(url)), path_of(Url(url)), at)
        found = REVISION.search(answer.body)
        return Shown(answer.status, int(found[1]) if found else None)

    def over(self, url: str, begin: float, end: float) -> set[Shown]:
        """Everything that a page was in that time."""
        moments, site, desk = [begin, end], self.twin.site_of_host(host_of(Url(url))), self.twin.responder
        place = parse_path(site, path_of(Url(url))) if site else None
        if site and place:
            moments += desk.changes.change_times_between(site, place.number, begin, end)
            moments += [
                turn.at for turn in desk.lifetimes.location_changes(site, place.number) if begin < turn.at <= end
            ]
        return {self.was(url, at) for at in moments}

    def arrivals(self, home: Path) -> list[Arrival]:
        """The requests of one crawl, in order of time, but for robots.txt."""
        mine = contact(home)
        return [
            arrival for arrival in self.meadow.arrivals() if mine in arrival.agent and arrival.path != "/robots.txt"
        ]


class RefreshLife(NamedTuple):
    """One refresh from its launch to its kill."""

    began: float  # to be at work
    ended: float
    under_way: int  # polls that it found under way


@dataclass
class Upkeep:
    """One crawl that was kept up: how often it was killed, and when its last round was."""

    home: Path
    kills: int = 0
    lives: list[RefreshLife] = field(default_factory=list)
    last_round: tuple[float, float] = (0.0, 0.0)
    polls: int = 0  # that the ledger knew after the last kill
    under_way: int = 0  # and those of which it knew that they were


@contextmanager
def changing_scene(scratch: Path, **options: Any) -> Iterator[ChangingScene]:
    asked = CHANGING | {"began": time.time()} | options
    scratch.mkdir(parents=True, exist_ok=True)
    changes = scratch / "changes.jsonl"
    with running_meadow(**asked, changes=str(changes)) as running:
        yield ChangingScene(running, scratch, Meadow(MeadowOptions(**asked), running.port), changes)


def words_of(home: Path, verb: str, *more: str) -> list[str]:
    settings = SETTINGS | {"crawl.contact": contact(home)}
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [verb, str(home), "--allow-private", *given, *more]


def keep_up(scene: ChangingScene, rng: random.Random, wanted: int, verdict: Verdict) -> Upkeep:
    """A crawl, refreshes of it that are killed `wanted` times, and a last round."""
    room = scene.room()
    kept = Upkeep(room / "c")
    said = verdict.heard(run(words_of(kept.home, "crawl", "--seed", scene.meadow.seeds[0])))
    if said.code != 0:
        verdict.blame(Flaw.STUCK, f"the crawl: exit {said.code}: {said.talk[-400:]}")
    endless = words_of(kept.home, "refresh", "--budget", f"{BUDGET:g}/s")
    while kept.kills < wanted:
        began = time.time()
        _end_one(launch(endless, talk=room / "talk"), rng, kept, verdict)
        kept.lives.append(RefreshLife(at_work(kept.home, began), time.time(), kept.under_way))
        look_over(kept, verdict, doctor=kept.kills % 10 == 0)
    began = time.time()
    last = verdict.heard(run(words_of(kept.home, "refresh", "--once"), patience=PATIENCE))
    kept.last_round = began, time.time()
    if last.code != 0 or not last.told or last.told["lost"] or last.told["waiting"]:
        verdict.blame(Flaw.STUCK, f"the last round: exit {last.code}: {last.told} {last.talk[-600:]}")
    talk = (room / "talk").read_text(errors="replace")
    verdict.heard(Said(0, None, talk))
    return kept


def _end_one(process: subprocess.Popen[bytes], rng: random.Random, kept: Upkeep, verdict: Verdict) -> None:
    """Kill a refresh after a while: a worker first, perhaps, then itself or all of it at once.

    One in four while it opens; the others once it has made a checkpoint, however long that takes.
    """
    journal = kept.home / "journal"
    size, wakes = journal.stat().st_size, rng.random() < 0.75
    while wakes and journal.stat().st_size == size and process.poll() is None:
        time.sleep(0.02)
    try:
        process.wait(rng.uniform(0.1, 3.0))
        verdict.blame(Flaw.STUCK, f"a refresh without an end ended with {process.returncode}")
    except subprocess.TimeoutExpired:
        workers = children(process.pid)
        if workers and rng.random() < 0.3:
            kill(rng.choice(workers))
            kept.kills += 1
            time.sleep(rng.uniform(0.0, 1.0))
        if rng.random() < 0.5:
            kill(process.pid)
    kept.kills += 1
    end(process)


def at_work(home: Path, launched: float) -> float:
    """When a refresh had opened all: its first checkpoint. When it was launched, if it never came so far."""
    raw, at = (home / "journal").read_bytes(), 0
    while (payload := whole_record_at(raw, at)) is not None:
        if (moment := decode_checkpoint(payload).at) > launched:
            return moment
        at += FRAME.size + len(payload)
    return launched


def look_over(kept: Upkeep, verdict: Verdict, *, doctor: bool) -> None:
    """What the ledger knows after a kill; now and then doctor's word."""
    home = CrawlDir.open(kept.home)
    ledger = read_page_table(home, read_checkpoint(home))
    polls, kept.under_way = int(ledger.column("polls").sum()), ledger.in_flight
    ledger.close()
    if polls < kept.polls:
        verdict.blame(Flaw.LOST, f"after {kept.kills} kills {polls} polls are known; it were {kept.polls}")
    kept.polls = polls
    if doctor:
        word = verdict.heard(run(["doctor", str(kept.home)]))
        if word.code != 0:
            verdict.blame(Flaw.DOCTOR, f"exit {word.code} after a kill: {bad(word)}")
