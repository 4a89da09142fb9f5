"""Calling somebody's function so that whatever it does costs one answer at most.

It may raise anything, `SystemExit` and the like included; it may never come back;
it may catch what should end it. Time is kept by the kernel's timer, whose signal
reaches Python code between two of its steps; what does not hear it (a loop inside a
compiled library, a function that catches everything) is `stuck`, and then the
process that runs it has to end: a worker does, and its agent sends the page again, to
be stored without its plug-ins.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

import msgspec

T = TypeVar("T")

DEAF = 1.0  # seconds between two signals to a plug-in that goes on
WARNINGS = 3  # signals after which one that goes on is stuck
LONGEST = 200  # characters of what it said


class TooLong(BaseException):
    """Raised inside a plug-in when its time is over."""


class BadAnswer(Exception):
    """It gave something else than it should; the message completes "it ..."."""


def kind_of(thing: object) -> str:
    """What it gave, for that message.

    >>> kind_of(7), kind_of("vole")
    ('an `int`', 'a `str`')
    """
    name = type(thing).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} `{name}`"


class Complaint(msgspec.Struct, frozen=True):
    """What a plug-in did instead of answering."""

    plugin: str
    what: str
    late: bool = False  # it took too long

    def __str__(self) -> str:
        return f"`{self.plugin}` {self.what}"


class Onlooker:
    """Who is told when a plug-in is entered and left; a worker's can do something about one that is stuck."""

    def entered(self) -> None: ...

    def left(self) -> None: ...

    def stuck(self) -> None: ...


def call(plugin: str, patience: float, onlooker: Onlooker, act: Callable[[], T]) -> T | Complaint:
    """What `act` returns, or what the plug-in of that name did wrong."""
    onlooker.entered()
    try:
        if threading.current_thread() is threading.main_thread():
            return _timed(plugin, patience, onlooker, act)
        return tried(plugin, act)  # only the main thread hears signals
    finally:
        onlooker.left()


def tried(plugin: str, act: Callable[[], T]) -> T | Complaint:
    """The same without keeping time; `TooLong` goes through to whoever does."""
    try:
        return act()
    except TooLong:
        raise
    except BadAnswer as trouble:
        return Complaint(plugin, str(trouble))
    except BaseException as trouble:
        return Complaint(plugin, f"raised {describe(trouble)}")


def _timed(plugin: str, patience: float, onlooker: Onlooker, act: Callable[[], T]) -> T | Complaint:
    inside, warned = True, 0

    def wake(number: int, frame: FrameType | None) -> None:
        nonlocal warned
        if inside:
            warned += 1
            if warned > WARNINGS:
                onlooker.stuck()
            raise TooLong

    # Set each time: a plug-in may have taken the signal for itself.
    before, rung = signal.signal(signal.SIGALRM, wake), (0.0, 0.0)
    try:
        rung = signal.setitimer(signal.ITIMER_REAL, patience, DEAF)
        answer = tried(plugin, act)
        inside = False
    except TooLong:
        inside = False
        answer = Complaint(plugin, f"took longer than {patience:g} s", late=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        if rung[0]:
            signal.setitimer(signal.ITIMER_REAL, *rung)  # somebody else's
    return answer


def describe(trouble: BaseException) -> str:
    """An exception in one short line, whatever it makes of being asked.

    >>> describe(KeyError("price")), describe(SystemExit())
    ("KeyError: 'price'", 'SystemExit')
    """
    try:
        said = " ".join(str(trouble).split())
    except TooLong:
        raise
    except BaseException:
        said = "and cannot say why"
    said = "".join(letter if letter.isprintable() else "?" for letter in said[:LONGEST])
    return f"{type(trouble).__name__}: {said}" if said else type(trouble).__name__
