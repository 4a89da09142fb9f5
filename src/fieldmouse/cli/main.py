"""Command line: one module per command, loaded only when the command is used.

Data goes to stdout, messages to stderr, and every command takes `--json`. No crawl logic is here: a command
turns options into settings, calls one package, and reports the result through `console`.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 stopped by a limit with work left, 130 interrupted and safe
to resume.

`fieldmouse --help` must not wait for numpy, so a group knows the name, the help line and the
place (`module:attribute`) of each command. Other distributions add commands by entry points of
the group `fieldmouse.commands`.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click

from fieldmouse import __version__
from fieldmouse.cli import console
from fieldmouse.cli.signals import interrupt_on_signals
from fieldmouse.errors import FieldmouseError, StoppedImmediately, UsageError

#: Commands by name: where each is (`module:attribute`), and its help line.
Commands = Mapping[str, tuple[str, str]]


_HOLDS = (
    "`fieldmouse doctor DIRECTORY` says what a crawl holds, and `fieldmouse export DIRECTORY --to -` lists its pages"
)

#: Hints for commands that other tools have.
_COMMAND_HINTS = dict.fromkeys(("status", "stats", "info", "list", "ls", "show"), _HOLDS)


class LazyGroup(click.Group):
    """Group of commands, listed in sections and imported on use.

    `plugins` names a group of entry points that add commands to the last section.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Commands], plugins: str = "", **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._own_commands = {name: place for commands in sections.values() for name, (place, _) in commands.items()}
        self._plugins = plugins

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._own_commands, *(name for name, _ in self._plugin_commands())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._own_commands:
            return _import_command(self._own_commands[cmd_name])
        return next((_import_command(place) for name, place in self._plugin_commands() if name == cmd_name), None)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            path, near = ctx.command_path, difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            raise UsageError(
                f"there is no command `{args[0]}`" + (f" in `{path}`" if ctx.parent else ""),
                _COMMAND_HINTS.get(args[0])
                or (f"did you mean `{path} {near[0]}`?" if near else f"`{path} --help` lists the commands"),
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        added = [(name, _import_command(place).get_short_help_str(80)) for name, place in self._plugin_commands()]
        last = list(self._sections)[-1]
        for title, commands in self._sections.items():
            rows = [(name, line) for name, (_, line) in commands.items()] + (added if title == last else [])
            with formatter.section(title):
                formatter.write_dl(rows)

    def _plugin_commands(self) -> Iterator[tuple[str, str]]:
        if self._plugins:
            from importlib.metadata import entry_points  # slow to import

            for point in sorted(entry_points(group=self._plugins), key=lambda point: point.name):
                if point.name not in self._own_commands:
                    yield point.name, point.value


def _import_command(place: str) -> click.Command:
    module, _, name = place.partition(":")
    command: click.Command = getattr(import_module(module), name)
    return command


EXIT_INTERRUPTED = 130
#: Commands that handle stop signals from the start of the process.
CRAWL_COMMANDS = frozenset({"crawl", "resume", "refresh", "agent"})

#: Commands by section: the module of each in `fieldmouse.cli`, and its help line.
_MODULES = {
    "Crawl": {
        "crawl": ("crawl.crawl", "Crawl websites into a new directory."),
        "resume": ("crawl.resume", "Continue a crawl that was stopped, killed or limited."),
        "refresh": ("crawl.refresh", "Poll known pages again to keep them fresh."),
        "doctor": ("crawl.doctor", "Check a crawl directory, and repair it with --repair."),
        "demo": ("crawl.demo", "Crawl, search and explain a small synthetic web; needs no internet."),
    },
    "Read": {
        "search": ("read.search", "Search the pages of a crawl, also while it runs."),
        "export": ("read.export", "Export the pages as JSON lines, CSV or Parquet."),
        "explain": ("read.explain", "Explain what happened to one URL, and why its host waits."),
    },
    "Watch": {
        "changes": ("watch.changes", "List pages that are new, changed, gone or moved, and show the differences."),
        "notify": ("watch.notify", "Show the channels of change notifications, and test them."),
        "freshness": ("watch.freshness", "Show how fresh the copies are, and estimate the effect of other budgets."),
        "pack": ("watch.pack_sites", "Compute how many nodes the polls need, and assign sites to them."),
    },
    "Cluster": {
        "agent": ("cluster.agent", "Crawl together with agents on other machines."),
        "cluster": ("cluster.cluster", "Inspect and manage a crawl of many agents."),
    },
    "Research": {
        "control": ("crawl.control_decisions", "Show the concurrency rules of a crawl and their effects."),
        "meadow": ("crawl.serve_synthetic_web", "Serve a synthetic web on loopback, for demos, tests and benchmarks."),
    },
}
SECTIONS: dict[str, Commands] = {
    title: {name: (f"fieldmouse.cli.{module}:command", line) for name, (module, line) in commands.items()}
    for title, commands in _MODULES.items()
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    plugins="fieldmouse.commands",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `fieldmouse demo`, or with `fieldmouse crawl atlas --seed https://example.org/`.",
)
@click.version_option(__version__, message="fieldmouse %(version)s")
def fieldmouse() -> None:
    """Crawl websites politely, store them as WARC, and search them.

    A crawl lives in one directory. It can be killed at any moment and resumed
    without losing a URL that it has accepted.
    """


def main(args: list[str] | None = None) -> None:
    """Run one command and exit with its exit code."""
    # By default numpy starts one thread per core for large matrix products. These threads cost time at every
    # start, and no code here multiplies large matrices. The environment variable can turn them back on.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words = sys.argv[1:] if args is None else args
    try:
        if words[:1] and words[0] in CRAWL_COMMANDS:
            interrupt_on_signals()  # before anything slow: waiting for a coordinator may take long
        code = run_command(words)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    if code == EXIT_INTERRUPTED:
        # At once: Python would print tracebacks about a second Ctrl-C or a thread that still runs.
        console.exit_at_once(code)
    sys.exit(code)


def run_command(words: list[str]) -> int:
    """Run one command and return its exit code; with `--json`, errors are printed as JSON."""
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    console.mute_messages(as_json)
    try:
        outcome: Any = fieldmouse.main(args=words, prog_name="fieldmouse", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        console.message(help_wanted.format_message())
        return help_wanted.exit_code
    except click.ClickException as wrong:
        context = wrong.ctx if isinstance(wrong, click.UsageError) else None
        where = context.command_path if context else _command_path(words)
        # Suggestions leave out the old names of options, which are accepted but undocumented.
        if isinstance(wrong, click.NoSuchOption) and wrong.possibilities and context:
            shown = {name for param in context.command.get_params(context) for name in param.opts}
            near = [name for name in wrong.possibilities if name in shown]
            wrong = click.NoSuchOption(wrong.option_name, possibilities=near, ctx=context)
        message, hint = wrong.format_message().rstrip("."), f"see `{where} --help`"
        if "extra argument" in message and "://" in message:
            hint = f"give a URL with `--seed URL`; {hint}"
        console.error(message, hint, as_json=as_json)
        return wrong.exit_code
    except StoppedImmediately as trouble:
        if as_json:
            console.error(str(trouble), trouble.hint, as_json=True)
        return EXIT_INTERRUPTED
    except FieldmouseError as trouble:
        console.error(str(trouble), trouble.hint, as_json=as_json)
        return 2 if isinstance(trouble, UsageError) else 1
    except OSError as refused:
        # A problem of the machine, not a bug: an error message instead of a traceback.
        where = f"`{refused.filename}`: " if refused.filename else ""
        console.error(f"{where}{refused.strerror or refused}", "check the disk", as_json=as_json)
        return 1
    console.flush()
    return outcome if isinstance(outcome, int) else 0


def _command_path(words: list[str]) -> str:
    """Command that the words begin with; click does not report it when an option lacks its value."""
    path = "fieldmouse"
    command: click.Group = fieldmouse
    for word in words:
        subcommand = command.get_command(click.Context(command), word)
        if subcommand is None:
            break
        path = f"{path} {word}"
        if not isinstance(subcommand, click.Group):
            break
        command = subcommand
    return path
