"""Console output: data to stdout, messages to stderr; the only module that prints.

Messages are for people and readable without colour. With `--json` there are none: a program gets one JSON
value on stdout, also for an error. Lines may contain untrusted text, so every line passes `sanitize`.
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

from fieldmouse.formatting import escape_json as escape_json
from fieldmouse.formatting import format_count as format_count
from fieldmouse.formatting import format_duration as format_duration
from fieldmouse.formatting import format_number as format_number
from fieldmouse.formatting import format_rate as format_rate
from fieldmouse.formatting import format_size as format_size
from fieldmouse.formatting import format_time as format_time
from fieldmouse.formatting import sanitize as sanitize

if TYPE_CHECKING:
    from rich.progress import TaskID


#: Logger whose notes (level INFO) are shown as well: sites that joined the scope.
NOTES_LOGGER = "fieldmouse.crawler.growing_scope"

_muted = False


def message(sentence: str) -> None:
    """Print one message, unless messages are muted."""
    if not _muted:
        urgent_message(sentence)


def urgent_message(sentence: str) -> None:
    """Print one message also with `--json`, such as the answer to Ctrl-C."""
    with suppress(OSError):  # a crawl survives a closed terminal
        print(sanitize(sentence, lines=True), file=sys.stderr, flush=True)


def hint(sentence: str) -> None:
    message(f"hint: {sentence}")


def print_data(line: str = "") -> None:
    """Print one line of data."""
    print_sanitized(sanitize(line))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of data."""
    for line in lines:
        print_data(line)


def print_sanitized(line: str) -> None:
    """Print one line of data that is sanitized already and may contain colours."""
    with _reader_may_leave():
        print(line)


def use_colours() -> bool:
    """Whether data may have colours: on a terminal without NO_COLOR (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_json(value: object) -> None:
    """Print one JSON value on one line."""
    with _reader_may_leave():
        sys.stdout.flush()
        sys.stdout.buffer.write(escape_json(msgspec.json.encode(value)) + b"\n")
        sys.stdout.flush()


def error(text: str, advice: str = "", *, as_json: bool = False) -> None:
    """Print an error and a hint about the next step."""
    if as_json:
        print_json({"error": text, "hint": advice})
        return
    message(f"error: {text}")
    if advice:
        hint(advice)


def decode_argument(word: str) -> str:
    """Command-line argument as UTF-8 text in every locale; invalid bytes become U+FFFD."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def mute_messages(muted: bool) -> None:
    """Turn messages off or on."""
    global _muted
    _muted = muted


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirect prints in the block to stderr: the user's plug-ins may run there, and stdout is for data."""
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def stdout_for_data() -> Iterator[BinaryIO]:
    """stdout as a binary file, for data that may not fit in memory."""
    with _reader_may_leave():
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.flush()


def messages_on_terminal() -> bool:
    """Whether messages are shown on a terminal."""
    return sys.stderr.isatty() and not _muted


def terminal_width() -> int:
    """Columns of the terminal on stdout; unlimited if stdout is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def show_warnings() -> None:
    """Show logged warnings on stderr."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_WarningFormatter())
    logging.getLogger(NOTES_LOGGER).setLevel(logging.INFO)


class _WarningFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        what = "warning" if record.levelno >= logging.WARNING else "note"
        return sanitize(f"{what}: {super().format(record)}", lines=True)


def flush() -> None:
    """Flush the data."""
    with _reader_may_leave():
        sys.stdout.flush()


def exit_at_once(code: int) -> NoReturn:
    """Flush the output and end the process at once."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Exit with code 0 if the reader of the data closes the pipe, such as `head`."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


class LiveLine:
    """Line that is rewritten in place; only on a terminal."""

    def __init__(self) -> None:
        # Imported here: rich is slow to load, and most commands do not need it.
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._text = Text
        self._live = Live(console=Console(stderr=True, highlight=False), auto_refresh=False)
        self._live.start()

    def show(self, line: str) -> None:
        with suppress(OSError):
            self._live.update(self._text(sanitize(line), overflow="ellipsis", no_wrap=True), refresh=True)

    def close(self) -> None:
        with suppress(OSError):
            self._live.stop()


class TaskProgressBars:
    """Progress bars, one per running task and one for all; only on a terminal."""

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
            """New display after each stop: a display that is started twice deletes foreign lines."""
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

        self._start_display = display
        self._total = total
        self._done = 0
        self._all = self._bars.add_task("all", total=total, doing=f"0 of {total}", visible=total > 1)
        self._running_tasks: dict[str, TaskID] = {}
        self._live = self._start_display()

    def show(self, name: str, share: float, doing: str) -> None:
        """Show that the share `share` of task `name` is done, from 0 to 1."""
        if name not in self._running_tasks:
            self._running_tasks[name] = self._bars.add_task(name, total=1.0, doing=doing)
        self._bars.update(self._running_tasks[name], completed=min(1.0, max(0.0, share)), doing=sanitize(doing))
        self._live.refresh()

    def task_done(self, name: str) -> None:
        """Remove the bar of task `name`, which is done."""
        if name in self._running_tasks:
            self._bars.remove_task(self._running_tasks.pop(name))
        self._done += 1
        self._bars.update(self._all, completed=self._done, doing=f"{self._done} of {self._total}")

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the bars while the block runs, so that it can print lines."""
        self._live.stop()
        yield
        self._live = self._start_display()

    def close(self) -> None:
        self._live.stop()


def align_columns(rows: Iterable[tuple[str, ...]], *, right: Container[int] = ()) -> list[str]:
    """Rows as lines with aligned columns; the columns in `right` are right-aligned."""
    table = [tuple(map(sanitize, row)) for row in rows]
    widths = [max((len(row[i]) for row in table), default=0) for i in range(len(table[0]))] if table else []
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
