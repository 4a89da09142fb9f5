"""Runner of experiments in separate processes.

A compiled kernel does not react to Ctrl-C, and an experiment may take minutes, but a process can be killed
at any time. Processes also use both cores and free their memory. They are forked: the libraries are loaded
once, and an experiment need not be picklable. Experiments that share work form a lot, which one process
runs in sequence. Nothing is cached between runs: every result shown is newly computed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import assert_never

from fieldmouse.errors import FieldmouseError
from fieldmouse_lab.catalogue import Experiment, Result, explain_missing_extra
from fieldmouse_lab.findings import LabFinding

#: Seconds between two calls of the watcher for each experiment, even without progress.
TICK = 0.2

#: Seconds for an interrupted experiment to clean up, for example to stop its servers.
INTERRUPT_GRACE = 3.0

#: Callback with an experiment's id, its completed share from 0 to 1, and the current step.
Watch = Callable[[str, float, str], None]


class ExperimentFailed(FieldmouseError):
    """An experiment ended without a result."""


@dataclass(frozen=True, slots=True)
class _Note:
    share: float
    doing: str


@dataclass(frozen=True, slots=True)
class _Done:
    result: Result
    seconds: float


Lot = tuple[Experiment, ...]


@dataclass(slots=True)
class _Running:
    """A process, and the unfinished experiments of its lot, the current one first."""

    ahead: deque[Experiment]
    process: ForkProcess
    inlet: Connection
    alone: bool
    note: _Note = field(default_factory=lambda: _Note(0.0, ""))


def run_experiments(
    experiments: Sequence[Experiment], *, jobs: int = 1, watch: Watch = lambda *_: None
) -> Generator[LabFinding, None, None]:
    """Run the experiments, at most `jobs` at a time, and yield their findings in the given order.

    No process is left once the generator is exhausted or closed.
    """
    waiting, running = deque(group_by_shared_work(experiments)), list[_Running]()
    done: dict[str, LabFinding] = {}
    asked_for = deque(one.id for one in experiments)
    try:
        # SIGTERM counts as Ctrl-C, so that our processes end with us.
        with _handling(signal.SIGTERM, signal.default_int_handler):
            while asked_for:
                while waiting and _there_is_room(waiting[0], running, jobs):
                    running.append(_start(waiting.popleft(), running))
                # Wait up to a tick for the first message.
                ready = wait([one.inlet for one in running], TICK)
                for one in [one for one in running if one.inlet in ready]:
                    finding = _listen(one)
                    if finding is not None:
                        done[finding.id] = finding
                    if not one.ahead:
                        _end([one])
                        running.remove(one)
                for one in running:
                    watch(one.ahead[0].id, one.note.share, one.note.doing)
                while asked_for and asked_for[0] in done:
                    yield done.pop(asked_for.popleft())
    finally:
        _end(running)


def group_by_shared_work(experiments: Sequence[Experiment]) -> list[Lot]:
    """Group experiments that share work, in the given order."""
    found: dict[str, Lot] = {}
    for one in experiments:
        key = f"shares {one.shares}" if one.shares else f"is {one.id}"
        found[key] = (*found.get(key, ()), one)
    return list(found.values())


def _there_is_room(lot: Lot, running: list[_Running], jobs: int) -> bool:
    if any(one.alone for one in lot) or any(one.alone for one in running):
        return not running
    return len(running) < max(1, jobs)


def _start(lot: Lot, others: list[_Running]) -> _Running:
    inlet, outlet = multiprocessing.Pipe(duplex=False)
    inherited = [inlet, *(one.inlet for one in others)]
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=_perform, args=(lot, outlet, inherited), name=lot[0].id)
    process.start()
    outlet.close()
    return _Running(deque(lot), process, inlet, any(one.alone for one in lot))


def _perform(lot: Lot, outlet: Connection, inherited: list[Connection]) -> None:
    """Main function of the new process."""
    os.setsid()  # the terminal's Ctrl-C goes to the parent, which passes it on once
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for inlet in inherited:
        inlet.close()  # otherwise the pipe of a killed parent would seem open
    told_at = 0.0

    def tell(message: _Note | _Done | FieldmouseError) -> None:
        try:
            outlet.send(message)
        except BrokenPipeError:
            raise KeyboardInterrupt from None  # the parent is gone, so the work is pointless

    def progress(share: float, doing: str) -> None:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at >= TICK / 2:
            told_at = now
            tell(_Note(float(share), doing))

    with suppress(KeyboardInterrupt):
        try:
            for experiment in lot:
                began = time.monotonic()
                with explain_missing_extra():
                    result = experiment.run(progress)
                tell(_Done(result, time.monotonic() - began))
        except FieldmouseError as trouble:
            tell(FieldmouseError(str(trouble), trouble.hint))


def _listen(one: _Running) -> LabFinding | None:
    """Receive one message; return a finding if it was an experiment's last."""
    try:
        message: _Note | _Done | FieldmouseError = one.inlet.recv()
    except EOFError:
        one.process.join()
        code, name = one.process.exitcode, one.ahead[0].id
        if code is not None and code < 0:
            raise ExperimentFailed(
                f"experiment `{name}` was killed by {signal.Signals(-code).name}",
                "if memory was short, run fewer at a time with `--jobs 1`",
            ) from None
        raise ExperimentFailed(
            f"experiment `{name}` broke off without a result", "that is a mistake of ours: please report it"
        ) from None
    match message:
        case _Note():
            one.note = message
            return None
        case _Done():
            one.note = _Note(0.0, "")
            return LabFinding.of(one.ahead.popleft(), message.result, message.seconds)
        case FieldmouseError():
            raise message
        case _:
            assert_never(message)


def _end(running: list[_Running]) -> None:
    """Interrupt the unfinished processes, wait for a grace period, then kill each process group."""
    unfinished = [one for one in running if one.ahead]
    # A second Ctrl-C would interrupt the cleanup after the first.
    with _handling(signal.SIGINT, signal.SIG_IGN) if unfinished else nullcontext():
        for one in unfinished:
            with suppress(ProcessLookupError):
                os.kill(_pid(one), signal.SIGINT)
        until = time.monotonic() + INTERRUPT_GRACE
        for one in running:
            one.process.join(max(0.0, until - time.monotonic()))
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(_pid(one), signal.SIGKILL)
            one.process.kill()
            one.process.join()
            one.inlet.close()


def _pid(one: _Running) -> int:
    assert one.process.pid is not None
    return one.process.pid


@contextmanager
def _handling(number: signal.Signals, handler: Callable[..., object] | signal.Handlers) -> Iterator[None]:
    """Handle a signal by `handler` in this context."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
