"""The only module that prints: data to stdout, talk to stderr.

Talk is for people and is readable without colour. With `--json` there is no talk:
one JSON value on stdout is all a program gets, errors included. Much of what is said was
written by strangers, so every line passes `visible` on its way out.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import msgspec

from fieldmouse.figures import counted as counted
from fieldmouse.figures import duration as duration
from fieldmouse.figures import number as number
from fieldmouse.figures import rate as rate
from fieldmouse.figures import size as size
from fieldmouse.figures import when as when
from fieldmouse.visible import escape_json as escape_json
from fieldmouse.visible import visible as visible

if TYPE_CHECKING:
    from rich.progress import TaskID

NOTES = "fieldmouse.agent.crawlscope"
"""The logger whose notes, which are no warnings, are for people too: what joined the scope."""

_muted = False


def say(sentence: str) -> None:
    """One line of talk."""
    if not _muted:
        urge(sentence)


def urge(sentence: str) -> None:
    """One line of talk that is said even if a program listens to our data: somebody waits for an answer."""
    with _listener_may_leave():
        print(visible(sentence, lines=True), file=sys.stderr, flush=True)


def hint(sentence: str) -> None:
    say(f"hint: {sentence}")


def data(line: str = "") -> None:
    """One line of data."""
    with _reader_may_leave():
        print(visible(line))


def shown(line: str) -> None:
    """One line of data that is visible already, and may have colours of ours in it."""
    with _reader_may_leave():
        print(line)


def coloured() -> bool:
    """Whether data may have colours: on a terminal, unless its user wants none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def json(value: object) -> None:
    """One JSON value on one line of stdout."""
    with _reader_may_leave():
        sys.stdout.flush()
        sys.stdout.buffer.write(escape_json(msgspec.json.encode(value)) + b"\n")
        sys.stdout.flush()


def error(message: str, advice: str = "", *, as_json: bool = False) -> None:
    """What happened, to which thing, and what to do next."""
    if as_json:
        json({"error": message, "hint": advice})
        return
    say(f"error: {message}")
    if advice:
        hint(advice)


def as_typed(word: str) -> str:
    """A word of the command line as text, whatever the locale; bytes that are no text become U+FFFD."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def mute(muted: bool) -> None:
    """Whether a program is listening, which wants data and no talk."""
    global _muted
    _muted = muted


@contextmanager
def talk_only() -> Iterator[None]:
    """What others print in here is talk: code of the user's own runs, and stdout is for data."""
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def data_stream() -> Iterator[BinaryIO]:
    """stdout as a file of bytes, for data too long to hold."""
    with _reader_may_leave():
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.flush()


def on_terminal() -> bool:
    """Whether a person watches our talk."""
    return sys.stderr.isatty() and not _muted


def width() -> int:
    """Columns that the reader of our data has; as many as one likes if that is a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def show_warnings() -> None:
    """Let what the stages log as a warning reach the person at the keyboard."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Visible())
    logging.getLogger(NOTES).setLevel(logging.INFO)


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        what = "warning" if record.levelno >= logging.WARNING else "note"
        return visible(f"{what}: {super().format(record)}", lines=True)


def finish() -> None:
    """Send off what is still in our hands."""
    with _reader_may_leave():
        sys.stdout.flush()


def leave(code: int) -> NoReturn:
    """End the process without waiting for anything but what we have to say."""
    for stream in (sys.stdout, sys.stderr):
        with _listener_may_leave():
            stream.flush()
    os._exit(code)


@contextmanager
def _listener_may_leave() -> Iterator[None]:
    """A terminal that was closed hears no talk, and a crawl does not fail for that."""
    with suppress(OSError):
        yield


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Whoever reads our data may have had enough; that is no failure of ours."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


class LiveLine:
    """One line that is written again and again; only on a terminal."""

    def __init__(self) -> None:
        # Loaded here: a command that does not show one need not wait for it.
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._text = Text
        self._live = Live(console=Console(stderr=True, highlight=False), auto_refresh=False)
        self._live.start()

    def show(self, line: str) -> None:
        with _listener_may_leave():
            self._live.update(self._text(visible(line), overflow="ellipsis", no_wrap=True), refresh=True)

    def close(self) -> None:
        with _listener_may_leave():
            self._live.stop()


class Bars:
    """A bar for each thing under way and one for all of them; only on a terminal."""

    def __init__(self, total: int):
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[doing]}", markup=False),
            console=console,
        )

        def display() -> Live:
            """A new one after each stop: started a second time, one wipes lines that are not its own."""
            live = Live(
                console=console,
                get_renderable=self._bars.get_renderable,
                transient=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            live.start()
            return live

        self._display = display
        self._total = total
        self._done = 0
        self._all = self._bars.add_task("all", total=total, doing=f"0 of {total}", visible=total > 1)
        self._under_way: dict[str, TaskID] = {}
        self._live = self._display()

    def show(self, name: str, share: float, doing: str) -> None:
        """How much of `name` is done, from 0 to 1."""
        if name not in self._under_way:
            self._under_way[name] = self._bars.add_task(name, total=1.0, doing=doing)
        self._bars.update(self._under_way[name], completed=min(1.0, max(0.0, share)), doing=visible(doing))
        self._live.refresh()

    def end(self, name: str) -> None:
        """`name` is done."""
        if name in self._under_way:
            self._bars.remove_task(self._under_way.pop(name))
        self._done += 1
        self._bars.update(self._all, completed=self._done, doing=f"{self._done} of {self._total}")

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Out of the way for as long as the block lasts, so that it can write its own lines."""
        self._live.stop()
        yield
        self._live = self._display()

    def close(self) -> None:
        self._live.stop()


def columns(rows: Iterable[tuple[str, ...]], *, right: Container[int] = ()) -> list[str]:
    """Rows as lines, each column as wide as its widest cell; numbers stand to the `right`."""
    table = [tuple(map(visible, row)) for row in rows]
    widths = [max((len(row[i]) for row in table), default=0) for i in range(len(table[0]))] if table else []
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
