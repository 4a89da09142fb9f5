"""Options that several commands share: those that change settings, `--json` and `--with`.

An option is only another spelling of a setting, so it is read by the same reader
and fails with the same sentence. `--set` reaches every setting without an option.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fieldmouse.api.asking import SETTING_OF
from fieldmouse.errors import UsageError
from fieldmouse.settings import spellings, units

if TYPE_CHECKING:
    from fieldmouse.reading import ReadingRoom, ReadingRooms

F = TypeVar("F", bound=Callable[..., Any])


class RenamedOption(click.Option):
    """Option that is also understood under its old name, and its variable under the old one."""

    @property
    def _former(self) -> click.Option:
        old = next(old for old, new in spellings.OPTIONS.items() if new in self.opts)
        return click.Option([old], is_flag=self.is_flag, multiple=self.multiple)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        self._former.add_to_parser(parser, ctx)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> Any:
        former = self._former
        if former.name in opts:
            if self.name in opts:
                raise spellings.both_given(former.opts[0], self.opts[0])
            opts = {**opts, self.name: opts[former.name]}
        return super().consume_value(ctx, opts)

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        value = super().resolve_envvar_value(ctx)
        for old, new in spellings.VARIABLES.items():
            if new == self.envvar and os.environ.get(old):
                if value is not None:
                    raise spellings.both_given(old, new)
                return os.environ[old]
        return value


also = click.option(
    "--with",
    "others",
    metavar="DIR",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Another crawl, to be read as one with this; may be repeated.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON value instead of talk.")

retry_failed = click.option(
    "--retry-failed",
    is_flag=True,
    cls=RenamedOption,
    help="Retry URLs that were given up here because a host failed.",
)

seed_redirects = click.option(
    "--follow-seed-redirects",
    is_flag=True,
    default=None,
    help="Go on where a seed redirects to, also if that is another registered domain.",
)


def opened(directory: Path, others: tuple[Path, ...]) -> ReadingRoom | ReadingRooms:
    """The crawl in a directory, or several as one where `--with` named others."""
    from fieldmouse.reading import ReadingRoom, ReadingRooms

    return ReadingRooms([directory, *others]) if others else ReadingRoom(directory)


def limits(command: F) -> F:
    """The options that make sense at any time of a crawl's life."""
    command = polite(command)
    for option in reversed(
        [
            click.option("--pages", metavar="N", help="Stop after N pages in all; 0 for no limit."),
            click.option(
                "--time",
                metavar="T",
                help="Ask nobody after this long, such as 10m, and store what there is; 0s for no limit.",
            ),
            click.option(
                "--depth", metavar="N", help='Links to follow away from a seed; "none" for no limit.'
            ),
        ]
    ):
        command = option(command)
    return command


def polite(command: F) -> F:
    """The options of every command that asks servers for something."""
    for option in reversed(
        [
            click.option(
                "--delay", metavar="T", help="Between two requests to one host, such as 1s or 500/h."
            ),
            click.option("--concurrency", metavar="N", cls=RenamedOption, help="Most fetches at a time."),
            click.option(
                "--control",
                metavar="MODE",
                help="fixed, thresholds or auto: who decides how many of them work.",
            ),
            click.option("--contact", metavar="MAIL", help="Where you can be reached; servers are told."),
            click.option("--allow-private", is_flag=True, help="Also visit loopback and private addresses."),
            click.option(
                "--resolve",
                metavar="PATTERN=ADDR[:PORT]",
                multiple=True,
                help="Address of a name, instead of DNS.",
            ),
            click.option("--progress", metavar="T", help="Print a line this often even without a terminal."),
            click.option(
                "--set",
                "changes",
                metavar="SECTION.KEY=VALUE",
                multiple=True,
                help="Any setting of fieldmouse.toml, written as there; text needs no quotes.",
            ),
        ]
    ):
        command = option(command)
    return command


def progress_every(given: Mapping[str, Any]) -> float | None:
    """Seconds between progress lines where there is no terminal; None for silence."""
    if given["progress"] is None:
        return None
    try:
        return units.seconds(given["progress"])
    except ValueError:
        raise UsageError(f"`--progress {given['progress']}` is no duration", "write it as 5s or 1m") from None


def asked(given: Mapping[str, Any]) -> tuple[dict[str, object], dict[str, object]]:
    """The short words among the options that were given, and what `--set` changes."""
    words = {word: given.get(word) or None for word in SETTING_OF}
    return words, spellings.renamed(changes(given.get("changes", ())))


def changes(words: Iterable[str]) -> dict[str, str]:
    """What `--set KEY=VALUE` says, the last word of each key.

    >>> changes(["delta = 3", "delta=4"])
    {'delta': '4'}
    """
    said = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"`--set {word}` has no value", f"write it as `--set {key}=VALUE`")
        said[key.strip()] = value.strip()
    return said


def modes(about: str) -> Callable[[F], F]:
    """The option `--modes`: numbers of robots, written as 1,4,16; a tuple, or None if it is not given."""
    return click.option("--modes", metavar="N,N,...", callback=_read_modes, help=about)


def _read_modes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    words = value.replace(",", " ").split()
    if not words or not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise UsageError(f"`--modes {value}` names no numbers of robots", "write them as --modes 1,4,16")
    return tuple(int(word) for word in words)
