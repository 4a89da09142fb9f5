"""Errors for the user, each with a hint.

There are three kinds of trouble. The web's failures are `Outcome` values (`types/outcome.py`), never
exceptions. The user's failures are `FieldmouseError`s: a sentence that names the thing, and a hint that
says how to fix it. Our own mistakes are assertions and tracebacks.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FULL = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)))
_FORBIDDEN = tuple(map(os.strerror, (errno.EACCES, errno.EPERM, errno.EROFS)))
_TOO_MANY = tuple(map(os.strerror, (errno.EMFILE, errno.ENFILE)))


def shell_quoted(path: object) -> str:
    """Quote a path for a shell, for hints that name a command.

    >>> shell_quoted("my crawls/atlas")
    "'my crawls/atlas'"
    """
    return shlex.quote(str(path))


class FieldmouseError(Exception):
    """An error that the user can fix; `hint` says how."""

    hint: str = ""

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message)
        if hint:
            self.hint = hint

    def replace_resume_command(self, verb: str, options: str = "") -> None:
        """Replace the `fieldmouse resume` command of the hint by this command.

        >>> full = FieldmouseError("the disk is full", "make room, then `fieldmouse resume atlas`")
        >>> full.replace_resume_command("agent", " --coordinator URL")
        >>> full.hint
        'make room, then `fieldmouse agent atlas --coordinator URL`'
        """
        self.hint = re.sub(
            r"`fieldmouse resume\b([^`]*)", lambda match: f"`fieldmouse {verb}{match[1]}{options}", self.hint
        )


class UsageError(FieldmouseError):
    """An invalid command, option or setting (exit code 2)."""


class SettingsError(UsageError):
    """An unusable value in `fieldmouse.toml` or in an option."""


class CrawlDirError(FieldmouseError):
    """The crawl directory cannot be used as requested."""


class CrawlLocked(CrawlDirError):
    """Another process is crawling in this directory."""

    def __init__(self, path: Path, owner_pid: int):
        ours = owner_pid == os.getpid()
        other = f"process {owner_pid}" if owner_pid else "another process"
        super().__init__(f"`{path}` is in use by {'this process' if ours else other}")
        self.path, self.owner_pid = path, owner_pid
        self.hint = f"stop it first, or look at it with `fieldmouse doctor {shell_quoted(path)}`"
        if ours:
            self.hint = (
                "leave the loop over that crawl, or `close` it, first;"
                " after `async for`, `await crawl.aclose()` waits until it is closed"
            )


class NotACrawl(CrawlDirError):
    """The directory holds no crawl."""

    def __init__(self, path: Path, *, to_resume: bool = False):
        super().__init__(f"`{path}` holds no crawl")
        self.path = path
        self.hint = f"start one with `fieldmouse crawl {shell_quoted(path)} --seed https://...`"
        if path.exists() and not path.is_dir():
            self.hint = "it is a file: name the directory of a crawl"
        elif not path.exists() and not to_resume:
            self.hint = "there is no such directory: check the name"
        elif (path / "journal").exists():
            self.hint = f"there was one: `fieldmouse doctor {shell_quoted(path)}` says what can be saved"


class CrawlExists(CrawlDirError):
    """A new crawl was requested in a directory that holds one already."""

    def __init__(self, path: Path, *, has_pages: bool = True):
        super().__init__(f"`{path}` holds a crawl already")
        self.path = path
        self.hint = f"continue it with `fieldmouse resume {shell_quoted(path)}`, or choose another directory"
        if not has_pages:
            self.hint += "; it has no page yet, so you may as well delete it and start again"


class UnsupportedFormat(CrawlDirError):
    """The directory was written by a version with another file format."""

    def __init__(self, path: Path, found: int, wanted: int):
        super().__init__(f"`{path}` is a crawl of format {found}; this fieldmouse reads format {wanted}")
        self.path, self.found, self.wanted = path, found, wanted
        self.hint = "use the fieldmouse that wrote it, or export the pages with that one"


class DamagedFile(CrawlDirError):
    """A file of the crawl differs from its record in the journal."""

    def __init__(self, path: Path, what: str, besides: str = ""):
        """`besides` is added to the hint after the `doctor` command."""
        super().__init__(f"`{path}` is damaged: {what}")
        self.path = path
        doctor = f"`fieldmouse doctor {shell_quoted(crawl_dir_of(path))}` says what can be saved"
        self.hint = f"{doctor}; {besides}" if besides else doctor


class MissingFile(DamagedFile):
    """A file that the journal names does not exist."""

    def __init__(self, path: Path):
        super().__init__(path, "the journal names it, but it is missing")


def crawl_dir_of(path: Path) -> Path:
    """The crawl directory of a file: the nearest parent that holds a crawl."""
    for directory in path.parents:
        if (directory / "crawl.json").exists():
            return directory
    return path.parent


class IndexFileDamaged(ValueError):
    """The full-text index cannot read one of its files. The caller adds the name of the index."""


class StorageError(CrawlDirError):
    """The local disk, or a store on it, failed to read or write. No page is at fault, and the checkpoint is
    safe."""

    def __init__(self, path: Path, trouble: Exception):
        why = getattr(trouble, "strerror", None) or str(trouble) or type(trouble).__name__
        named = getattr(trouble, "filename", None)
        super().__init__(f"cannot read or write `{named or path}`: {why}")
        # A store passes on the message of the operating system, but not its error number.
        advice = "check the disk"
        if any(words in why for words in _FULL):
            advice = "make room"
        elif any(words in why for words in _FORBIDDEN):
            advice = "check your permissions there"
        elif any(words in why for words in _TOO_MANY):
            advice = "allow more open files (`ulimit -n`)"
        home = path if (path / "crawl.json").exists() else crawl_dir_of(path)
        if isinstance(trouble, IndexFileDamaged):
            advice = f"`fieldmouse doctor {shell_quoted(home)} --repair` builds the index again"
        self.hint = f"{advice}; nothing is lost: then continue with `fieldmouse resume {shell_quoted(home)}`"


@contextmanager
def storage_errors(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Turn `OSError` and the store exceptions `kinds` into `StorageError`."""
    errors: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except errors as trouble:
        raise StorageError(path, trouble) from trouble


class StoppedImmediately(FieldmouseError):
    """The user interrupted twice: the crawl ends at once (exit code 130)."""

    def __init__(self) -> None:
        super().__init__("stopped at once", "nothing is lost: the next run fetches the last pages again")


class DrainTimeout(FieldmouseError):
    """An agent that was asked to leave could not store its last pages in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"this agent could not store its last pages within {seconds:g} s; other agents fetch them",
            "check disk and machine; nothing is lost: continue with the same command",
        )


class CoordinatorError(FieldmouseError):
    """The coordinator cannot be used as requested."""


class CoordinatorUnreachable(CoordinatorError):
    """The coordinator's server does not answer; whether it executed the last call is unknown."""


class AgentFenced(CoordinatorError):
    """The coordinator has given this agent's leases to other agents: the agent must join again."""


class AgentSuperseded(AgentFenced):
    """A newer process of the same agent has joined, so this one ends. Its directory may have been copied."""


class CoordinatorDataLost(CoordinatorError):
    """The coordinator no longer has the crawl: its server lost its data."""
