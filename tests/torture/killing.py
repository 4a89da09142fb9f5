"""Crawls that are ended: at random, and just before or after what makes things durable."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .judging import Flaw, Verdict, bad, judge
from .recording import Act, Operation, read, standing
from .scene import PATIENCE, Said, Scene, end, launch, run, spoken
from .shim import Shim

NEVER = 10**12
_HASH = re.compile(r"[0-9a-f]{32}|\.tmp\w+")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Moment:
    """The `number`-th moment of a kind; `kind` is a pattern such as "after rename index/*", empty for any."""

    number: int
    kind: str = ""
    only_self: bool = False  # the process that came there, not all of them


def record(scene: Scene, *, resumed_after: Moment | None = None) -> list[Operation]:
    """What an undisturbed crawl does to its files; or what a resume does after a kill."""
    room = scene.room("record")
    home = room / "c"
    if resumed_after is not None:
        stop_at(scene, home, resumed_after)
    shim = Shim(home, room / "shim", record=True)
    words = scene.words(home)
    before = standing(home)
    said = run(words, shim.environment())
    assert said.code == 0, said
    operations = before + read(shim.traces)
    shutil.rmtree(room)
    return operations


def stop_at(scene: Scene, home: Path, moment: Moment, *more: str) -> None:
    """Leave behind a crawl that was killed at `moment`."""
    shim = _shim(home, home.parent / "shim", moment)
    run(scene.words(home, *more), shim.environment())
    assert shim.killed_at(), "the crawl was over before"


def _shim(home: Path, scratch: Path, moment: Moment) -> Shim:
    return Shim(home, scratch, kill=moment.number, at=moment.kind, torn=not moment.kind, only_self=moment.only_self)


def count_moments(scene: Scene) -> int:
    """How many moments there are to be killed at in a crawl."""
    room = scene.room("count")
    shim = Shim(room / "c", room / "shim", kill=NEVER, torn=True)
    said = run(scene.words(room / "c"), shim.environment())
    assert said.code == 0, said
    moments = shim.moments()
    shutil.rmtree(room)
    return moments


WORDS = {
    Act.CREATE: "create",
    Act.RESIZE: "resize",
    Act.SYNC: "sync",
    Act.RENAME: "rename",
    Act.UNLINK: "unlink",
    Act.MKDIR: "mkdir",
    Act.RMDIR: "unlink",
}


def kinds(operations: Iterable[Operation]) -> Counter[str]:
    """Before and after what one can be killed, and how often that comes; all serial numbers are alike."""
    found: Counter[str] = Counter()
    for operation in operations:
        if operation.act in WORDS and operation.sequence >= 0:
            path = _NUMBER.sub("*", _HASH.sub("*", operation.target or operation.path))
            for when in ("before", "after"):
                found[f"{when} {WORDS[operation.act]} {path}"] += 1
    return found


def kill_at(scene: Scene, moments: Sequence[Moment]) -> tuple[Verdict, int]:
    """A crawl killed at the first of `moments`, its resumes at the others; and how many kills fell."""
    room = scene.room("kill")
    home, kills = room / "c", 0
    marks: list[str] = []
    verdict = Verdict("")
    word: Said | None = None
    last: Said | None = None
    for number, moment in enumerate(moments):
        shim = _shim(home, room / f"shim-{number}", moment)
        last = verdict.heard(run(scene.words(home), shim.environment()))
        if not shim.killed_at():
            break
        kills += 1
        marks.append(f"{shim.killed_at()}, number {moment.number}{' alone' if moment.only_self else ''}")
        if last.code == 0:  # a worker died, and the crawl went on
            break
        last = None
        word = verdict.heard(run(["doctor", str(home)]))
    verdict.case = f"killed {'; then '.join(marks) or 'never'}"
    judge(scene, home, verdict, last or run(scene.words(home)))
    if word is not None:
        settle(verdict, word, home)
    keep(verdict, room)
    return verdict, kills


def kill_randomly(scene: Scene, rng: random.Random, wanted: int) -> tuple[Verdict, int]:
    """One crawl and its resumes killed again and again, main process, worker or all of them."""
    room = scene.room("random")
    home, talk = room / "c", room / "talk"
    verdict = Verdict(f"killed {wanted} times at random")
    kills, word = 0, None
    process = launch(scene.words(home), talk=talk)
    while kills < wanted:
        try:
            process.wait(rng.uniform(0.05, 2.5))
            if process.returncode == 0:
                break  # nothing was left to be killed
            process = _again(scene, home, talk)
            continue
        except subprocess.TimeoutExpired:
            pass
        kills += 1
        workers = children(process.pid)
        if workers and rng.random() < 0.3:
            kill(rng.choice(workers))
            continue
        if rng.random() < 0.5:
            kill(process.pid)
        end(process)
        if kills % 5 == 0 and (home / "crawl.json").exists():
            word = verdict.heard(run(["doctor", str(home)]))
            if word.code != 0:
                verdict.blame(Flaw.DOCTOR, f"exit {word.code} after a kill: {bad(word)}")
        process = _again(scene, home, talk)
    try:
        process.wait(PATIENCE)
        last = Said(process.returncode, spoken(talk.with_suffix(".out").read_bytes()), talk.read_text())
    except subprocess.TimeoutExpired:
        end(process)
        last = Said(None, None, talk.read_text())
    judge(scene, home, verdict, last)
    keep(verdict, room)
    return verdict, kills


def _again(scene: Scene, home: Path, talk: Path) -> subprocess.Popen[bytes]:
    return launch(scene.words(home), talk=talk)


def settle(verdict: Verdict, word: Said, home: Path) -> None:
    """Hold doctor's word of a killed crawl against what came of it."""
    if word.code == 0 and verdict.flaws:
        verdict.blame(Flaw.DOCTOR, "healthy, it said before")
    elif word.code != 0 and not verdict.flaws and "findings" in (word.told or {}):
        verdict.alarms += 1
        verdict.notes.append(f"before: {bad(word)}")


def keep(verdict: Verdict, room: Path) -> None:
    """What went wrong is kept to be looked at."""
    if verdict.flaws:
        (room / "verdict.txt").write_text("\n".join([verdict.case, *verdict.notes]))
    else:
        shutil.rmtree(room)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
