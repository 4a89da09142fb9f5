"""Tests of guarded plug-in calls: a faulty plug-in costs only its own result."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from fieldmouse.plugins import runner as calling
from fieldmouse.plugins.runner import CallObserver, InvalidPluginResult, PluginFailure, PluginTimeout, call_plugin


class Diary(CallObserver):
    def __init__(self) -> None:
        self.told: list[str] = []

    def call_started(self) -> None:
        self.told.append("entered")

    def call_ended(self) -> None:
        self.told.append("left")

    def call_stuck(self) -> None:
        self.told.append("stuck")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before, _ = signal.getsignal(signal.SIGALRM), signal.setitimer(signal.ITIMER_REAL, 250.0)
    yield
    assert signal.getsignal(signal.SIGALRM) is before
    assert 200.0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 250.0, "an alarm of somebody else's still rings"


def _raise(what: BaseException) -> Callable[[], NoReturn]:
    def act() -> NoReturn:
        raise what

    return act


def test_result_is_returned() -> None:
    diary = Diary()
    assert call_plugin("a:b", 5.0, diary, lambda: [1, 2]) == [1, 2]
    assert diary.told == ["entered", "left"]


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        (KeyError("price"), "raised KeyError: 'price'"),
        (SystemExit(3), "raised SystemExit: 3"),
        (KeyboardInterrupt(), "raised KeyboardInterrupt"),
        (GeneratorExit(), "raised GeneratorExit"),
        (MemoryError(), "raised MemoryError"),
        (Silent(), "raised Silent: without a readable message"),
        (ValueError("two\nlines \x1b[31m"), "raised ValueError: two lines ?[31m"),
        (InvalidPluginResult("gave nothing"), "gave nothing"),
    ],
)
def test_every_exception_is_reported_in_one_line(trouble: BaseException, says: str) -> None:
    diary = Diary()
    assert call_plugin("a:b", 5.0, diary, _raise(trouble)) == PluginFailure("a:b", says)
    assert diary.told == ["entered", "left"]
    told = call_plugin("a:b", 5.0, diary, _raise(ValueError("x" * 10_000)))
    assert len(str(told)) < 300


def test_endless_loop_is_interrupted_at_the_time_limit() -> None:
    def loop() -> None:
        while True:
            pass

    assert call_plugin("a:b", 0.05, Diary(), loop) == PluginFailure("a:b", "took longer than 0.05 s", timed_out=True)
    assert call_plugin("a:b", 0.05, Diary(), lambda: time.sleep(3600)) == PluginFailure(
        "a:b", "took longer than 0.05 s", timed_out=True
    )


def test_plugin_that_ignores_the_timeout_is_reported_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "SIGNAL_INTERVAL", 0.02)
    diary = Diary()

    def deaf() -> str:
        while "stuck" not in diary.told:
            try:
                time.sleep(3600)
            except PluginTimeout:
                continue
        return "in the end"

    call_plugin("a:b", 0.05, diary, deaf)
    assert diary.told == ["entered", "stuck", "left"]


def test_plugin_that_replaces_the_signal_handler_affects_only_its_own_call() -> None:
    def thief() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)

    assert call_plugin("a:b", 5.0, Diary(), thief) is None
    assert call_plugin("a:b", 0.05, Diary(), lambda: time.sleep(3600)) == PluginFailure(
        "a:b", "took longer than 0.05 s", timed_out=True
    )


def test_exceptions_are_caught_outside_the_main_thread() -> None:
    told: list[object] = []
    thread = threading.Thread(target=lambda: told.append(call_plugin("a:b", 5.0, Diary(), _raise(SystemExit()))))
    thread.start()
    thread.join()
    assert told == [PluginFailure("a:b", "raised SystemExit")]
