"""Options shared by several commands: those that change settings, `--json` and `--with`.

An option is another spelling of a setting, so it is parsed by the same code and fails with the same error.
`--set` changes settings that have no option.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from fieldmouse.api.crawl_preparation import KEYWORD_SETTINGS
from fieldmouse.cluster.client.identity import DEFAULT_CRAWL
from fieldmouse.config import old_spellings
from fieldmouse.config import values as units
from fieldmouse.errors import UsageError, shell_quoted

if TYPE_CHECKING:
    from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader


F = TypeVar("F", bound=Callable[..., Any])


class RenamedOption(click.Option):
    """Option that is also understood under its old name, and its variable under the old one."""

    @property
    def _option_with_old_name(self) -> click.Option:
        old = next(old for old, new in old_spellings.OPTIONS.items() if new in self.opts)
        return click.Option([old], is_flag=self.is_flag, multiple=self.multiple)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        self._option_with_old_name.add_to_parser(parser, ctx)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> Any:
        former = self._option_with_old_name
        if former.name in opts:
            if self.name in opts:
                raise old_spellings.both_spellings_error(former.opts[0], self.opts[0])
            opts = {**opts, self.name: opts[former.name]}
        return super().consume_value(ctx, opts)

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        value = super().resolve_envvar_value(ctx)
        for old, new in old_spellings.VARIABLES.items():
            if new == self.envvar and os.environ.get(old):
                if value is not None:
                    raise old_spellings.both_spellings_error(old, new)
                return os.environ[old]
        return value


with_option = click.option(
    "--with",
    "others",
    metavar="DIR",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Read this crawl together with DIRECTORY; repeatable.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value instead of messages.")

seeds_file_option = click.option(
    "--seeds-file", metavar="FILE", help="Read seeds from FILE, one URL a line, # for comments; - for stdin."
)
scope_option = click.option(
    "--scope", metavar="MODE", help="Stay within the page, host, site or web of the seeds.  [default: site]"
)
config_option = click.option(
    "--config", metavar="FILE", type=click.Path(path_type=Path), help="Read the settings from FILE first."
)

retry_failed_option = click.option(
    "--retry-failed", is_flag=True, cls=RenamedOption, help="Retry URLs that failed because of their host."
)

seed_redirects_option = click.option(
    "--follow-seed-redirects",
    is_flag=True,
    default=None,
    help="Follow redirects of seeds, also to another registered domain.",
)


def coordinator_option(help: str) -> Callable[[F], F]:
    """Add `--coordinator`. `ps` does not show a password that is given by the environment variable instead."""
    return click.option(
        "--coordinator",
        "coordinators",
        metavar="URL",
        multiple=True,
        required=True,
        cls=RenamedOption,
        envvar="FIELDMOUSE_COORDINATOR",
        show_envvar=True,
        help=help,
    )


def crawl_name_option(parameter: str, help: str) -> Callable[[F], F]:
    """Add `--crawl`: the name of a crawl on the coordinator."""
    return click.option("--crawl", parameter, metavar="NAME", default=DEFAULT_CRAWL, show_default=True, help=help)


def open_reader(directory: Path, others: tuple[Path, ...]) -> CrawlReader | MultiCrawlReader:
    """Reader of the crawl in `directory`, together with those that `--with` names."""
    from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader

    return MultiCrawlReader([directory, *others]) if others else CrawlReader(directory)


class SharedCrawlOptions(TypedDict):
    """Arguments that `request_options` adds, as typed; None if not given."""

    delay: str | None
    concurrency: str | None
    control: str | None
    contact: str | None
    allow_private: bool
    resolve: tuple[str, ...]
    progress: str | None
    changes: tuple[str, ...]


class CrawlOptions(SharedCrawlOptions):
    """Arguments that `crawl_options` adds."""

    pages: str | None
    time: str | None
    depth: str | None


def crawl_options(command: F) -> F:
    """Add the options of commands that start or continue a crawl."""
    return _add(
        request_options(command),
        click.option("--pages", metavar="N", help="Stop after N pages in all; 0 for no limit."),
        click.option("--time", metavar="T", help="Stop fetching after this time, such as 10m; 0s for no limit."),
        click.option("--depth", metavar="N", help='Follow at most N links from a seed; "none" for no limit.'),
    )


def request_options(command: F) -> F:
    """Add the options of every command that makes requests."""
    return _add(
        command,
        click.option("--delay", metavar="T", help="Wait between two requests to one host, such as 1s or 500/h."),
        click.option("--concurrency", metavar="N", cls=RenamedOption, help="Run at most N fetches at once."),
        click.option("--control", metavar="MODE", help="Control the concurrency by fixed, thresholds or auto."),
        click.option("--contact", metavar="MAIL", help="Send servers your contact address."),
        click.option("--allow-private", is_flag=True, help="Also visit loopback and private addresses."),
        click.option(
            "--resolve",
            metavar="PATTERN=ADDR[:PORT]",
            multiple=True,
            help="Use this address for a name, instead of DNS.",
        ),
        click.option("--progress", metavar="T", help="Print a progress line every T, such as 5s."),
        click.option(
            "--set",
            "changes",
            metavar="SECTION.KEY=VALUE",
            multiple=True,
            help="Change a setting of fieldmouse.toml, such as buffer.pages=500.",
        ),
    )


def _add(command: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def progress_every(given: SharedCrawlOptions) -> float | None:
    """Seconds between progress lines without a terminal; None for no lines."""
    text = given["progress"]
    return None if text is None else parse_quantity(units.seconds, text, "--progress", "duration", "5s or 1m")


def parse_quantity(
    read: Callable[[str], float], text: str, option: str, what: str, example: str, *, allow_zero: bool = True
) -> float:
    """Value of an option; `read` raises ValueError if the text is no `what`."""
    with suppress(ValueError):
        value = read(text)
        if value or allow_zero:
            return value
    raise UsageError(f"`{option} {text}` is no {what}", f"write it as {example}")


def split_settings(given: SharedCrawlOptions, **more: object) -> tuple[dict[str, object], dict[str, object]]:
    """Settings given by named options, with `more` of them, and those given by `--set`."""
    named = {**given, **more}
    words = {word: named.get(word) or None for word in KEYWORD_SETTINGS}
    return words, old_spellings.with_present_names(parse_set_options(given["changes"]))


def parse_set_options(words: Iterable[str]) -> dict[str, str]:
    """Parsed `--set KEY=VALUE` options; the last value of a key wins.

    >>> parse_set_options(["delta = 3", "delta=4"])
    {'delta': '4'}
    """
    values = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"`--set {word}` has no value", f"write it as `--set {key}=VALUE`")
        values[key.strip()] = value.strip()
    return values


#: Options that a continuation of the run does not need: limits, output, and what has happened by then.
_NOT_REPEATED = ("--pages", "--time", "--seed", "--retry-failed", "--progress", "--json")


def options_to_repeat(secret_names: Collection[str]) -> str:
    """Options of the running command that no file stores, to be added to the command that continues it.

    A setting of `secret_names` is shown without its value.
    """

    def shown(text: str) -> str:
        key = text.partition("=")[0].strip()
        return shell_quoted(f"{key}=..." if old_spellings.present_setting_name(key) in secret_names else text)

    context, words = click.get_current_context(), [""]
    for option in context.command.params:
        name, given = option.opts[0], context.params[option.name or ""]
        if given and isinstance(option, click.Option) and name not in _NOT_REPEATED:
            values = given if option.multiple else [given]
            words += [name] if option.is_flag else [f"{name} {shown(str(value))}" for value in values]
    return " ".join(words)


def modes_option(about: str) -> Callable[[F], F]:
    """Add the option `--modes`: numbers of fetch workers such as 1,4,16, as a tuple; None if not given."""
    return click.option("--modes", metavar="N,N,...", callback=_read_modes, help=about)


def _read_modes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    words = value.replace(",", " ").split()
    if not words or not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise UsageError(f"`--modes {value}` is no list of numbers", "write it as --modes 1,4,16")
    return tuple(int(word) for word in words)
