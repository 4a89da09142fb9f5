"""Each file of a crawl flipped, cut and deleted: what doctor says of it, and what a resume makes of it.

Three ends are right. Everything is there in the end, because the file could be
spared or made again. Or the resume refuses, in a sentence, and has changed nothing;
then doctor must have said so. Or what was hurt cannot be told from the outside of it (a
byte within an old WARC file): then doctor says so when asked to read everything.
Wrong is a traceback, an archive deleted, a page lost without a word.
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatch
from pathlib import Path

from .judging import Flaw, Verdict, bad, judge
from .killing import Moment, keep, stop_at
from .scene import CALM, Said, Scene, copy, run

COSTS_NOTHING = ("lock", "shard-*.lock", "*.lmdb-lock", "simhashes", ".tantivy-*.lock")
"""What a run that changes nothing may touch."""


MATTERS = (
    "journal",
    "outcomes.log",
    "frontier/*",
    "archive/*.warc.gz",
    "archive/*.cdxj",
    "index/*.store",
    "index/*.idx",
    "index/*.pos",
    "index/*.term",
)
"""Where no byte may change without doctor seeing it when it reads everything."""


KEPT_BY_A_REFRESH = ("ledger/*", "journal", "outcomes.log", "*.atom", "index/*copies*", "archive/digests.lmdb")
"""What only a refresh has, or what it writes otherwise than a crawl."""


class Way(StrEnum):
    FLIP = "flipped"
    CUT = "cut"
    DELETE = "deleted"


@dataclass(frozen=True)
class Damage:
    """One file hurt in one way; `where` between 0 and 1 says how far into it."""

    name: str
    way: Way
    where: float

    def __str__(self) -> str:
        return f"{self.name} {self.way}" + ("" if self.way is Way.DELETE else f" at {self.where:.0%}")

    @property
    def matters(self) -> bool:
        """Whether there is anything in this file, at any byte, that a crawl or its reader needs."""
        return any(fnmatch(self.name, pattern) for pattern in MATTERS) and "/kept/" not in self.name

    @property
    def is_of_a_refresh(self) -> bool:
        return any(fnmatch(self.name, pattern) for pattern in KEPT_BY_A_REFRESH)

    @property
    def is_of_a_feed(self) -> bool:
        return self.name.endswith(".atom")

    @property
    def is_met_late(self) -> bool:
        """Whether it is met only when a crawl comes to it: URLs in their queues are read a few at a time, and
        the rows of known pages when those are polled."""
        late = ("frontier/links-*.log", "outcomes.log")
        return self.way is Way.FLIP and any(fnmatch(self.name, pattern) for pattern in late)

    def is_harmless(self, whole: Path) -> bool:
        """Whether it changes one supported version to another at the end of an index file: no reader cares."""
        if self.way is not Way.FLIP or not self.name.startswith("index/"):
            return False
        content = bytearray((whole / self.name).read_bytes())
        at = min(len(content) - 1, int(self.where * len(content)))
        content[at] ^= 1 << (at % 8)
        footer = rb'(\d+),"minor":(\d+),"patch":(\d+),"index_format_version":([4-7])},"crc":\d+}.{8}$'
        numbers = re.search(footer, content, re.DOTALL)
        return numbers is not None and any(numbers.start(each) <= at < numbers.end(each) for each in range(1, 5))

    def undo(self, home: Path, whole: Path) -> None:
        """Turn the bit back, in a file that may have grown since."""
        size = (whole / self.name).stat().st_size
        at = min(size - 1, int(self.where * size))
        with (home / self.name).open("r+b") as file:
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1 << (at % 8)]))

    def apply(self, home: Path) -> None:
        path = home / self.name
        if self.way is Way.DELETE:
            path.unlink()
            return
        content = bytearray(path.read_bytes())
        at = min(len(content) - 1, int(self.where * len(content)))
        if self.way is Way.CUT:
            del content[at:]
        else:
            content[at] ^= 1 << (at % 8)
        path.write_bytes(content)


def damages(home: Path, rng: random.Random, *, second_names: bool = True) -> Iterator[Damage]:
    """Every file in three ways; an empty one can only be deleted, and so can a second name of a file."""
    met: set[int] = set()
    # Shortest paths first: the index keeps second names of its files in a directory below.
    for path in sorted((path for path in home.rglob("*") if path.is_file()), key=lambda path: len(path.parts)):
        name, facts = str(path.relative_to(home)), path.stat()
        first = facts.st_ino not in met
        met.add(facts.st_ino)
        if facts.st_size and first:
            yield Damage(name, Way.FLIP, rng.choice((0.0, 0.5, 1.0, rng.random())))
            yield Damage(name, Way.CUT, rng.choice((0.0, 0.5, 1.0, rng.random())))
        if first or second_names:
            yield Damage(name, Way.DELETE, 0.0)


def killed_crawl(scene: Scene, moment: Moment) -> Path:
    """A crawl, or a refresh, with work left, to be hurt again and again."""
    home = scene.room("hurt") / "c"
    stop_at(scene, home, moment, *CALM)
    assert (home / "journal").exists()
    return home


def finished_crawl(scene: Scene) -> Path:
    home = scene.room("hurt") / "c"
    said = run(scene.words(home, *CALM))
    assert said.code == 0, said
    return home


def hurt(scene: Scene, whole: Path, damage: Damage, *, finished: bool, resumed: bool = False) -> Verdict:
    """Hurt a copy of `whole`, look it over, go on with it, and judge both.

    resumed: by `resume`, also where its user would say something else.
    """
    words = scene.resume_words if resumed else scene.words
    room = scene.room("damage")
    home = room / "c"
    copy(whole, home)
    verdict = Verdict(f"a {'finished' if finished else 'killed'} {words(home)[0]}: {damage}")
    damage.apply(home)
    before = fingerprint(home)
    word = verdict.heard(run(["doctor", str(home), "--deep"]))
    if fingerprint(home) != before:
        verdict.blame(Flaw.DOCTOR, "it changed something")
    matters = finished and damage.matters and not damage.is_harmless(whole)
    if word.code == 0 and matters and _is_needed(scene, whole, damage.name):
        verdict.blame(Flaw.DOCTOR, "healthy, it said, and it is not")
    last = run(words(home))
    if finished and damage.is_of_a_feed:  # nobody reads it back: it is written anew with the next change
        shutil.copy(whole / damage.name, home / damage.name)
    if last.code != 0 and not last.traceback:
        _refused(verdict, home, before, word, str(last.told))
        if Flaw.LOST in verdict.flaws and damage.is_met_late:
            _go_on(scene, verdict, home, damage, whole)
    else:
        judge(scene, home, verdict, last)
        if word.code != 0:
            _forgive(verdict, home)
    keep(verdict, room)
    return verdict


def _is_needed(scene: Scene, whole: Path, name: str) -> bool:
    """Whether there is anything in a file, and a checkpoint needs it.

    One that none needs is taken away by the next run of the unhurt crawl.
    """
    if not (whole / name).stat().st_size:
        return False
    home = scene.room("swept") / "c"
    copy(whole, home)
    said = run(scene.resume_words(home))
    assert said.code == 0, said
    needed = (home / name).exists()
    shutil.rmtree(home.parent)
    return needed


def _refused(verdict: Verdict, home: Path, before: dict[str, str], word: Said, why: str) -> None:
    """A resume that does not go on: right if doctor knew, and if everything is as it was."""
    verdict.notes.append(f"refused: {why}; doctor: {bad(word)}")
    if word.code == 0:
        verdict.blame(Flaw.DOCTOR, f"healthy, but a resume refuses: {why}")
    if "hint" not in why:
        verdict.blame(Flaw.STUCK, f"no sentence, no hint: {why}")
    after = fingerprint(home)
    changed = {name for name, mark in before.items() if after.get(name) != mark}
    if changed:
        verdict.blame(Flaw.LOST, f"a refused resume changed {sorted(changed)[:5]}", len(changed))


def _go_on(scene: Scene, verdict: Verdict, home: Path, damage: Damage, whole: Path) -> None:
    """The crawl had begun, and ended where it met the damage: with that mended, nothing may be missing."""
    del verdict.flaws[Flaw.LOST]
    verdict.notes.append("met on the way; mended, and resumed again")
    damage.undo(home, whole)
    judge(scene, home, verdict, run(scene.words(home)))


def _forgive(verdict: Verdict, home: Path) -> None:
    """What somebody else broke may stay broken, if doctor said so before and says so now."""
    mendable = set(verdict.flaws) <= {Flaw.ARCHIVE, Flaw.UNREADABLE, Flaw.DOCTOR}
    if verdict.flaws and mendable and run(["doctor", str(home), "--deep"]).code == 1:
        verdict.notes.append("doctor said so before, and says so now")
        verdict.flaws.clear()


def fingerprint(home: Path) -> dict[str, str]:
    """Every file that matters, with the digest of its bytes."""
    return {
        str(path.relative_to(home)): hashlib.sha1(path.read_bytes()).hexdigest()
        for path in home.rglob("*")
        if path.is_file() and not any(path.match(pattern) for pattern in COSTS_NOTHING)
    }
