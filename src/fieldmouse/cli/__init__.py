"""The command line: one file per verb, loaded only when its verb is used.

Data goes to stdout, talk to stderr, and every verb takes `--json`. Nothing here
decides anything about a crawl: a verb turns words into settings, calls one room
of the house, and says what came of it through `voice`.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 stopped by a limit with work left,
130 interrupted and safe to resume.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from fieldmouse import __version__
from fieldmouse.cli import voice
from fieldmouse.cli.lazy import LazyGroup
from fieldmouse.cli.signals import heed_signals
from fieldmouse.errors import FieldmouseError, StoppedAtOnce, UsageError

INTERRUPTED = 130
CRAWLING = frozenset({"crawl", "resume", "refresh", "agent"})
"""Verbs that end in order when they are told to stop, from their first moment on."""

VERBS = {
    "crawl": "Crawl websites into a new directory.",
    "resume": "Continue a crawl that was stopped, killed or limited.",
    "refresh": "Ask for known pages again, and keep them fresh.",
    "agent": "Crawl together with agents on other machines.",
    "cluster": "Look after a crawl of many agents.",
    "search": "Search the pages of a crawl, also while it runs.",
    "export": "Write what is known of the pages as JSON lines, CSV or Parquet.",
    "freshness": "Say how fresh the copies are, and what another budget would bring.",
    "pack": "Say how many nodes the polls need, and pack the sites onto them.",
    "changes": "List the pages that are new, changed, gone or moved, and show how they differ.",
    "explain": "Say what happened to one URL, and why its host waits.",
    "notify": "Say who is told of changes, and test whether that works.",
    "control": "Show the rules that governed a crawl's robots, and how each fared.",
    "doctor": "Look a crawl directory over and say what to do.",
    "meadow": "Serve a synthetic web on loopback, for demos, tests and benchmarks.",
    "model": "Solve, optimise and fit models of robots that fill a buffer.",
    "lab": "Run the experiments: the papers number by number, and what goes beyond them.",
    "demo": "Crawl a small meadow, search it, explain it: no internet needed.",
}


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `fieldmouse demo`, or with `fieldmouse crawl atlas --seed https://example.org/`.",
)
@click.version_option(__version__, message="fieldmouse %(version)s")
def fieldmouse() -> None:
    """Crawl websites politely, keep them as WARC, and search them.

    A crawl lives in one directory. It can be killed at any moment and resumed;
    no URL it has accepted is ever lost.
    """


def main(args: list[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    # The threads that numpy starts to multiply large matrices spin at every start, one for each core, and
    # nothing here multiplies such. Whoever wants them says so.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words = sys.argv[1:] if args is None else args
    try:
        if words[:1] and words[0] in CRAWLING:
            heed_signals()  # before anything slow: a board may be waited for, for long
        code = run(words)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        # Now, and without a word of Python's about a second Ctrl-C or a thread that has not ended.
        voice.leave(code)
    sys.exit(code)


def run(words: list[str]) -> int:
    """Run one command and return its exit code; errors are told in the form the command was asked for."""
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    voice.mute(as_json)
    try:
        outcome: Any = fieldmouse.main(args=words, prog_name="fieldmouse", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort:
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as asked:
        voice.say(asked.format_message())
        return asked.exit_code
    except click.ClickException as wrong:
        context = wrong.ctx if isinstance(wrong, click.UsageError) else None
        where = context.command_path if context else _command_path(words)
        if isinstance(wrong, click.NoSuchOption) and wrong.possibilities and context:  # old names stay hidden
            shown = {name for param in context.command.get_params(context) for name in param.opts}
            near = [name for name in wrong.possibilities if name in shown]
            wrong = click.NoSuchOption(wrong.option_name, possibilities=near, ctx=context)
        voice.error(wrong.format_message().rstrip("."), f"see `{where} --help`", as_json=as_json)
        return wrong.exit_code
    except StoppedAtOnce as trouble:
        if as_json:
            voice.error(str(trouble), trouble.hint, as_json=True)
        return INTERRUPTED
    except FieldmouseError as trouble:
        voice.error(str(trouble), trouble.hint, as_json=as_json)
        return 2 if isinstance(trouble, UsageError) else 1
    except OSError as refused:
        # The machine's trouble, not a mistake of ours: a sentence, not a traceback.
        where = f"`{refused.filename}`: " if refused.filename else ""
        voice.error(f"{where}{refused.strerror or refused}", "see that the disk is well", as_json=as_json)
        return 1
    voice.finish()
    return outcome if isinstance(outcome, int) else 0


def _command_path(words: list[str]) -> str:
    """The command that these words begin with; click does not know it when an option lacks its value."""
    path = "fieldmouse"
    command: click.Command = fieldmouse
    for word in words:
        found = (
            command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        )
        if found is None:
            break
        path, command = f"{path} {word}", found
    return path
