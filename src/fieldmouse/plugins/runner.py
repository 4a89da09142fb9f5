"""Guarded calls of plug-in functions: a faulty plug-in costs at most one result.

A plug-in may raise anything, including `SystemExit`; it may never return; it may catch the exception that
should end it. In a worker the kernel's timer limits its time: the signal reaches Python code between two
bytecode steps. A plug-in that does not react (a loop inside a compiled library, a function that catches
everything) is stuck, and the process that runs it must end. A worker then exits, and the crawler sends
the page again, to be stored without its plug-ins.

Beside an event loop each call has its own thread and a time limit. A call that exceeds it gets an
exception raised in its thread and is not waited for; the thread ends with the process at the latest.
While too many calls have not returned, new ones fail at once.

A bug in a plug-in usually affects every page. The outcome of each page records it; the log shows only the
first few warnings of each kind.
"""

from __future__ import annotations

import ctypes
import logging
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TypeVar

import msgspec

from fieldmouse.import_string import import_callable

T = TypeVar("T")

SIGNAL_INTERVAL = 1.0  # seconds between two signals to a plug-in that does not return
SIGNALS_BEFORE_STUCK = 3  # number of signals after which such a plug-in is stuck
MAX_MESSAGE = 200  # maximum characters of an exception's message


class PluginTimeout(BaseException):
    """Raised inside a plug-in when its time is over."""


class InvalidPluginResult(Exception):
    """Invalid return value of a plug-in; the message completes "`plugin` ..."."""


def type_with_article(thing: object) -> str:
    """Type of a value with its article, for that message.

    >>> type_with_article(7), type_with_article("vole")
    ('an `int`', 'a `str`')
    """
    name = type(thing).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} `{name}`"


class PluginFailure(msgspec.Struct, frozen=True):
    """Error of a plug-in, in place of its result."""

    plugin: str
    message: str
    timed_out: bool = False  # it took too long

    def __str__(self) -> str:
        return f"`{self.plugin}` {self.message}"


class CallObserver:
    """Callbacks before and after each call and for a stuck plug-in; the base class ignores them."""

    def call_started(self) -> None: ...

    def call_ended(self) -> None: ...

    def call_stuck(self) -> None: ...


def call_plugin(plugin: str, patience: float, observer: CallObserver, act: Callable[[], T]) -> T | PluginFailure:
    """Call `act` with a time limit of `patience` seconds; return its result, or the error of `plugin`."""
    observer.call_started()
    try:
        if threading.current_thread() is threading.main_thread():
            return _call_timed(plugin, patience, observer, act)
        return call_without_timeout(plugin, act)  # only the main thread receives signals
    finally:
        observer.call_ended()


def call_without_timeout(plugin: str, act: Callable[[], T]) -> T | PluginFailure:
    """The same without a time limit; `PluginTimeout` propagates to the caller."""
    try:
        return act()
    except PluginTimeout:
        raise
    except InvalidPluginResult as trouble:
        return PluginFailure(plugin, str(trouble))
    except BaseException as trouble:
        return PluginFailure(plugin, f"raised {describe_exception(trouble)}")


def _call_timed(plugin: str, patience: float, observer: CallObserver, act: Callable[[], T]) -> T | PluginFailure:
    running, warned = True, 0

    def wake(number: int, frame: FrameType | None) -> None:
        nonlocal warned
        if running:
            warned += 1
            if warned > SIGNALS_BEFORE_STUCK:
                observer.call_stuck()
            raise PluginTimeout

    # Set for each call: a plug-in may have replaced the signal handler.
    previous_handler, previous_timer = signal.signal(signal.SIGALRM, wake), (0.0, 0.0)
    try:
        previous_timer = signal.setitimer(signal.ITIMER_REAL, patience, SIGNAL_INTERVAL)
        result = call_without_timeout(plugin, act)
        running = False
    except PluginTimeout:
        running = False
        result = PluginFailure(plugin, f"took longer than {patience:g} s", timed_out=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous_handler)
        if previous_timer[0]:
            signal.setitimer(signal.ITIMER_REAL, *previous_timer)  # restore a timer that was already set
    return result


def describe_exception(trouble: BaseException) -> str:
    """An exception in one short line, even if its `__str__` fails.

    >>> describe_exception(KeyError("price")), describe_exception(SystemExit())
    ("KeyError: 'price'", 'SystemExit')
    """
    try:
        message = " ".join(str(trouble).split())
    except PluginTimeout:
        raise
    except BaseException:
        message = "without a readable message"
    message = "".join(letter if letter.isprintable() else "?" for letter in message[:MAX_MESSAGE])
    return f"{type(trouble).__name__}: {message}" if message else type(trouble).__name__


MAX_STUCK_CALLS = 8  # maximum number of calls that have not returned


class ThreadedPluginCaller:
    """Calls of one plug-in."""

    def __init__(self, plugin: str, patience: float):
        self.plugin, self._patience = plugin, patience
        self._stuck: set[threading.Thread] = set()

    async def call(self, act: Callable[[], T]) -> T | PluginFailure:
        """Run `act` in a thread; return its result, or the error of the plug-in."""
        import asyncio  # workers do not need it

        self._stuck = {thread for thread in self._stuck if thread.is_alive()}
        if len(self._stuck) >= MAX_STUCK_CALLS:
            return PluginFailure(
                self.plugin, f"was left out: {MAX_STUCK_CALLS} calls have not come back", timed_out=True
            )
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T | PluginFailure] = loop.create_future()

        def resolve(result: T | PluginFailure) -> None:
            if not answer.done():
                answer.set_result(result)

        def run() -> None:
            with suppress(PluginTimeout, RuntimeError):  # the caller gave up, or the loop is closed
                loop.call_soon_threadsafe(resolve, call_without_timeout(self.plugin, act))

        thread = threading.Thread(target=run, name=f"plug-in {self.plugin}", daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(self._patience):
                return await answer
        except TimeoutError:
            self._stuck.add(thread)
            _raise_timeout_in(thread)
            return PluginFailure(self.plugin, f"took longer than {self._patience:g} s", timed_out=True)


def _raise_timeout_in(thread: threading.Thread) -> None:
    """Raise `PluginTimeout` in a thread at its next Python bytecode step."""
    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(PluginTimeout))


log = logging.getLogger(__name__)

SHOWN_PER_KIND = 3  # of each kind
MAX_KINDS = 20
_KIND = re.compile(": |, on ")


class PluginWarnings:
    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def warn(self, complaint: str) -> None:
        kind = _KIND.split(complaint, 1)[0]
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            return
        self._counts[kind] += 1
        if self._counts[kind] <= SHOWN_PER_KIND:
            log.warning("%s", complaint)
        if self._counts[kind] == SHOWN_PER_KIND:
            log.warning("further warnings like this are not shown; `export --all` has one per page in `detail`")


class PluginConfig(msgspec.Struct, frozen=True):
    """Names of all plug-ins except the policy, and the limits of their calls."""

    extract: str = ""
    admit: str = ""
    readers: dict[str, str] = {}  # by MIME type
    sign: str = ""  # runs in the fetching process
    patience: float = 5.0  # maximum seconds per call
    most_bytes: int = 1 << 20  # maximum size of the rows of one page
    path: tuple[str, ...] = ()  # directories to search for modules

    def check_loadable(self) -> None:
        """Raise an error that names the first plug-in that cannot be loaded."""
        plugins = [("extract", self.extract), ("admit", self.admit), ("sign", self.sign)]
        for what, name in plugins + [("reader", name) for name in self.readers.values()]:
            if name:
                import_callable(name, what)
