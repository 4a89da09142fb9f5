"""Trouble that is ours and passes: the disk, the network, the DNS, the clock, a signal.

A crawl may wait it out, or stop with a sentence and a JSON line; in both cases a
resume without the trouble must come to exactly the truth. No page may pay for it.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from meadowland import running_meadow

from .judging import Flaw, Verdict, judge
from .killing import Moment, children, keep, stop_at
from .nameserver import nameserver
from .scene import MEADOW, PATIENCE, Said, Scene, end, launch, run, spoken
from .shim import Shim

Case = Callable[[Scene], Verdict]
PLACES = (
    "*",
    "archive/*.warc.gz",
    "archive/*.cdxj",
    "archive/digests.lmdb",
    "index/*",
    "frontier/*",
    "outcomes.log",
    "journal",
    "readings.log",
)
WRITTEN_BY_A_REFRESH = ("*", "ledger/*", "index/*", "outcomes.log", "journal", "changes.atom*")
ORDERLY = (0, 1, 3, 130)


def cases() -> Iterator[tuple[str, Case]]:
    """Every trouble, by name."""
    for place in PLACES:
        yield f"disk full, seen by {place}", _disk(errno.ENOSPC, place, ops="write,resize", short=True)
        yield f"EIO for a while, {place}", _disk(errno.EIO, place, ops="write,sync", times=12)
        yield f"EIO for good, {place}", _disk(errno.EIO, place, ops="write,sync")
    yield "EIO on reading frontier/*", _disk(errno.EIO, "frontier/*", ops="read", after=3)
    yield "EIO on opening index/*", _disk(errno.EIO, "index/*", ops="open", after=12)
    yield "too few file descriptors", few_descriptors
    for number in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EMFILE, errno.ENOBUFS):
        yield f"no network for a while ({errno.errorcode[number]})", no_network(number)
    yield "every server refuses for a while", everybody_refuses
    for mood in ("failing", "silent"):
        yield f"DNS {mood} for a while", no_names(mood)
    for hours in (-5, 5):
        yield f"clock {hours:+} hours between two runs", wrong_clock(3600 * hours)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for when in ("at the start", "once it runs", "at a checkpoint"):
            yield f"{signal.Signals(number).name} to the group {when}", signalled(number, when)
    for number in (signal.SIGTERM, signal.SIGINT):
        yield f"{signal.Signals(number).name} twice", signalled(number, "once it runs", twice=True)


def cases_of_a_refresh() -> Iterator[tuple[str, Case]]:
    """What can happen to a refresh in another way than to a crawl."""
    for place in WRITTEN_BY_A_REFRESH:
        yield f"disk full, seen by {place}", _disk(errno.ENOSPC, place, ops="write,resize", short=True)
        yield f"EIO for a while, {place}", _disk(errno.EIO, place, ops="write,sync", times=12)
        yield f"EIO for good, {place}", _disk(errno.EIO, place, ops="write,sync")
    yield "EIO on opening ledger/*", _disk(errno.EIO, "ledger/*", ops="open", after=0)
    for number in (errno.ENETUNREACH, errno.ECONNREFUSED):
        yield f"no network for a while ({errno.errorcode[number]})", no_network(number)
    for hours in (-5, 5):
        yield f"clock {hours:+} hours between two runs", wrong_clock(3600 * hours)
    for number in (signal.SIGTERM, signal.SIGINT):
        for when in ("at the start", "once it runs", "at a checkpoint"):
            yield f"{signal.Signals(number).name} to the group {when}", signalled(number, when)
    yield "SIGTERM twice", signalled(signal.SIGTERM, "once it runs", twice=True)


def _disk(number: int, place: str, *, ops: str, after: int = 20, times: int = 0, short: bool = False) -> Case:
    def case(scene: Scene) -> Verdict:
        verdict, home = _begin(scene, f"{errno.errorcode[number]} on {ops} of {place}, {times or 'no'} times")
        # Files that are written rarely would otherwise never fail.
        passed = after if "*" in place else 3
        shim = Shim(
            home, home.parent / "shim", fail=number, ops=ops, path=place, after=passed, times=times, short=short
        )
        words = scene.words(home, "--set", "storage.min_free=0B")
        return _finish(scene, home, verdict, run(words, shim.environment()))

    return case


def few_descriptors(scene: Scene) -> Verdict:
    verdict, home = _begin(scene, "two file descriptors left, for four seconds")
    process = launch(scene.words(home), talk=home.parent / "talk")
    while not (home / "journal").exists() and process.poll() is None:
        time.sleep(0.02)
    used = len(os.listdir(f"/proc/{process.pid}/fd")) if process.poll() is None else 0
    _limit(process.pid, used + 2)
    time.sleep(4.0)
    _limit(process.pid, 1024)
    return _finish(scene, home, verdict, _wait(process, home.parent / "talk"))


def _limit(pid: int, files: int) -> None:
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, 4096))


def no_network(number: int) -> Case:
    def case(scene: Scene) -> Verdict:
        verdict, home = _begin(scene, f"{errno.errorcode[number]} on connecting, for four seconds")
        shim = Shim(home, home.parent / "shim", connect=number)
        environment = shim.environment()
        shim.flag.touch()
        process = launch(scene.words(home), environment, home.parent / "talk")
        time.sleep(5.0)
        shim.flag.unlink()
        return _finish(scene, home, verdict, _wait(process, home.parent / "talk"))

    return case


def everybody_refuses(scene: Scene) -> Verdict:
    """Connections are refused everywhere at once: that is our network, not ten dead hosts."""
    verdict, home = _begin(scene, "ECONNREFUSED from everybody, for four seconds")
    shim = Shim(home, home.parent / "shim", connect=errno.ECONNREFUSED)
    process = launch(scene.words(home), shim.environment(), home.parent / "talk")
    _until_checkpoint(home, process, 4)  # one host alone that refuses is not our trouble
    shim.flag.touch()
    time.sleep(4.0)
    shim.flag.unlink()
    return _finish(scene, home, verdict, _wait(process, home.parent / "talk"))


def no_names(mood: str) -> Case:
    def case(other: Scene) -> Verdict:
        verdict = Verdict(f"DNS {mood} for six seconds")
        room = other.room("dns")
        with running_meadow(**MEADOW, named=True) as meadow, nameserver(meadow.resolve) as server:
            settings = other.settings | {"network.nameservers": f'["{server.address}"]'}
            named = Scene(meadow, room, settings)
            named.learn()
            home = named.room("dns") / "c"
            server.mood = mood
            process = launch(named.words(home), talk=home.parent / "talk")
            time.sleep(6.0)
            server.mood = "well"
            return _finish(named, home, verdict, _wait(process, home.parent / "talk"))

    return case


def wrong_clock(seconds: int) -> Case:
    def case(scene: Scene) -> Verdict:
        verdict, home = _begin(scene, f"clock {seconds:+} s after a kill")
        stop_at(scene, home, Moment(3, "after sync journal"))
        shim = Shim(home, home.parent / "clock", clock=seconds)
        return _finish(scene, home, verdict, run(scene.words(home), shim.environment()))

    return case


def signalled(number: int, when: str, *, twice: bool = False) -> Case:
    """A crawl that runs answers in words, with exit code 130; before that there may be no time for it."""

    def case(scene: Scene) -> Verdict:
        name = signal.Signals(number).name
        verdict, home = _begin(scene, f"{name} to the group {when}{', twice' if twice else ''}")
        process = launch(scene.words(home), talk=home.parent / "talk")
        if when == "at the start":
            time.sleep(0.3)
        else:
            _until_checkpoint(home, process, 4 if when == "at a checkpoint" else 1)
        workers = children(process.pid)
        for _ in range(1 + twice):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        said = _wait(process, home.parent / "talk")
        ended = said.code is not None and said.code < 0  # by the signal itself
        runs = when != "at the start" and number != signal.SIGHUP
        if runs and not twice and (said.code not in (0, 130) or said.told is None):
            verdict.blame(Flaw.STUCK, f"exit {said.code} after {name}: {said.told} {said.talk[-300:]}")
        left = [pid for pid in workers if not _gone(pid)]
        if left:
            verdict.blame(Flaw.STUCK, f"workers {left} outlived the crawl")
        early = when == "at the start" and said.code == 130  # there is no crawl yet to speak of
        return _finish(scene, home, verdict, said, silent=ended or early)

    return case


def _gone(pid: int) -> bool:
    """Whether a worker ends within a second of its crawl; who only waits to be buried has ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


def _begin(scene: Scene, case: str) -> tuple[Verdict, Path]:
    return Verdict(case), scene.room("fault") / "c"


def _until_checkpoint(home: Path, process: subprocess.Popen[bytes], checkpoints: int) -> None:
    """Wait until the journal has grown so often; a crawl that is over is not waited for."""
    size, grown = (home / "journal").stat().st_size if (home / "journal").exists() else 0, 0
    while process.poll() is None and grown < checkpoints:
        time.sleep(0.005)
        now = (home / "journal").stat().st_size if (home / "journal").exists() else 0
        grown, size = grown + (now > size), now


def _wait(process: subprocess.Popen[bytes], talk: Path) -> Said:
    code: int | None
    try:
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        end(process)
        code = None
    return Said(code, spoken(talk.with_suffix(".out").read_bytes()), talk.read_text(errors="replace"))


def _finish(scene: Scene, home: Path, verdict: Verdict, said: Said, *, silent: bool = False) -> Verdict:
    """The first run must have ended in words; a resume without the trouble must come to the truth."""
    verdict.heard(said)
    if said.code is None:
        verdict.blame(Flaw.STUCK, f"it never ended: {said.talk[-400:]}")
    elif not silent and (said.code not in ORDERLY or said.told is None):
        verdict.blame(Flaw.STUCK, f"exit {said.code} without a word: {said.told} {said.talk[-300:]}")
    elif said.code:
        verdict.notes.append(f"exit {said.code}: {said.told}")
    judge(scene, home, verdict, run(scene.words(home)))
    keep(verdict, home.parent)
    return verdict
