"""Experiments in processes of their own: order, company, trouble, and leaving nothing behind."""

from __future__ import annotations

import multiprocessing
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Event

import pytest

import tinypaper
from fieldmouse.errors import FieldmouseError
from fieldmouse_lab import engine
from fieldmouse_lab.catalogue import Experiment, MissingExtra, Progress, Result, Row, Verdict

LONG = 60.0
"""Seconds after which an event that must come will not come any more."""


def experiment(name: str, run: Callable[[Progress], Result], *, alone: bool = False, shares: str = "") -> Experiment:
    return Experiment(name, "", "", "", run, alone, shares)


def tiny(name: str) -> Experiment:
    return next(one for one in tinypaper.EXPERIMENTS if one.id == name)


def event() -> Event:
    return multiprocessing.get_context("fork").Event()


def where(progress: Progress) -> Result:
    return Result((Row("process", None, os.getpid(), None, Verdict.NEW),))


def process_of(finding: engine.Finding) -> float | None:
    return finding.result.rows[0].ours


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_findings_come_in_the_requested_order() -> None:
    second_was_heard = event()
    seen: list[str] = []

    def first(progress: Progress) -> Result:
        assert second_was_heard.wait(LONG)
        return Result(remarks=("first",))

    def second(progress: Progress) -> Result:
        return Result(remarks=("second",))

    def watch(name: str, share: float, doing: str) -> None:
        """Both are told of in turn; once `a` comes twice, `b` is done."""
        if seen[-1:] == ["a"] == [name]:
            second_was_heard.set()
        seen.append(name)

    asked = [experiment("a", first), experiment("b", second)]
    found = [one.result.remarks for one in engine.run_experiments(asked, jobs=2, watch=watch)]
    assert found == [("first",), ("second",)]


def test_an_experiment_marked_alone_runs_alone() -> None:
    company = event()

    def shy(progress: Progress) -> Result:
        return Result(remarks=("company",) if company.wait(0.3) else ("alone",))

    def other(progress: Progress) -> Result:
        company.set()
        return Result()

    asked = [experiment("a", shy, alone=True), experiment("b", other)]
    found = list(engine.run_experiments(asked, jobs=2))
    assert found[0].result.remarks == ("alone",)
    assert company.is_set()


def test_those_that_share_work_share_a_process_and_others_do_not() -> None:
    asked = [
        experiment("a", where, shares="games"),
        experiment("b", where),
        experiment("c", where, shares="games"),
        experiment("d", where),
    ]
    a, b, c, d = map(process_of, engine.run_experiments(asked, jobs=2))
    assert a == c
    assert len({a, b, d, float(os.getpid())}) == 4


def test_the_watcher_hears_how_far_an_experiment_is() -> None:
    told: list[tuple[str, float, str]] = []
    list(engine.run_experiments([tiny("tiny-table")], watch=lambda *note: told.append(note)))
    assert ("tiny-table", 0.5, "counting mice") in told


@pytest.mark.parametrize(
    ("name", "message", "advice"),
    [
        ("tiny-refused", "the mice are asleep", "come back at dusk"),
        ("tiny-broken", "`tiny-broken` broke off", "please report it"),
        ("tiny-killed", "`tiny-killed` was killed by SIGKILL", "--jobs 1"),
        ("tiny-unequipped", "the lab needs scipy", "fieldmouse[lab]"),
    ],
)
def test_an_error_in_the_process_is_raised_in_the_parent(name: str, message: str, advice: str) -> None:
    with pytest.raises(FieldmouseError, match=re.escape(message)) as trouble:
        list(engine.run_experiments([tiny(name)]))
    assert advice in trouble.value.hint


def test_only_the_libraries_of_the_lab_are_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError), engine.explain_missing_extra():
        raise ModuleNotFoundError("No module named 'voles'", name="voles")
    with pytest.raises(MissingExtra), engine.explain_missing_extra():
        raise ModuleNotFoundError("No module named 'numba'", name="numba")


@pytest.mark.parametrize("name", ["tiny-endless", "tiny-stubborn"])
def test_an_interrupt_ends_every_process(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "INTERRUPT_GRACE", 0.2)
    pids: list[int] = []

    def interrupt(name: str, share: float, doing: str) -> None:
        if doing:
            pids.append(int(doing.split()[-1]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(engine.run_experiments([tiny(name)], watch=interrupt))
    assert not is_alive(pids[0])


def test_what_an_experiment_started_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that an experiment could not stop itself, because it was killed."""
    monkeypatch.setattr(engine, "INTERRUPT_GRACE", 0.2)
    pids: list[int] = []

    def lease_source(progress: Progress) -> Result:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        lodger = subprocess.Popen(
            [sys.executable, "-c", "import signal; print('here', flush=True); signal.pause()"], stdout=subprocess.PIPE
        )
        assert lodger.stdout is not None
        lodger.stdout.readline()
        progress(0.5, str(lodger.pid))
        signal.pause()
        raise AssertionError

    def interrupt(name: str, share: float, doing: str) -> None:
        if doing:
            pids.append(int(doing))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(engine.run_experiments([experiment("landlord", lease_source)], watch=interrupt))
    assert ends(pids[0])


def ends(pid: int) -> bool:
    """Killed is not yet dead: wait for it."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], LONG)[0])
    finally:
        os.close(process)


def test_a_request_to_terminate_is_an_interrupt_while_experiments_run() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def terminate(name: str, share: float, doing: str) -> None:
        if doing:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        list(engine.run_experiments([tiny("tiny-endless")], watch=terminate))
    assert signal.getsignal(signal.SIGTERM) is before


def test_leaving_early_ends_what_still_runs() -> None:
    pids: set[int] = set()

    def note(name: str, share: float, doing: str) -> None:
        if doing.startswith("waiting"):
            pids.add(int(doing.split()[-1]))

    running = engine.run_experiments([tiny("tiny-table"), tiny("tiny-endless")], jobs=2, watch=note)
    assert next(running).id == "tiny-table"
    running.close()
    assert not any(map(is_alive, pids))
    assert not multiprocessing.active_children()
