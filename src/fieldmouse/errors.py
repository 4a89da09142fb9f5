"""What we say to our user when something of theirs is wrong.

Three audiences, three kinds of trouble. The web's failures are `Outcome` values
(`records.py`), never exceptions. Our user's failures are `FieldmouseError`s: a
sentence that names the thing, and a hint that says what to do. Our own mistakes
are assertions and tracebacks.
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


def typed(path: object) -> str:
    """A path as it is typed in a shell, for hints that name a command.

    >>> typed("my crawls/atlas")
    "'my crawls/atlas'"
    """
    return shlex.quote(str(path))


class FieldmouseError(Exception):
    """Something the person at the keyboard can mend; `hint` says how."""

    hint: str = ""

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message)
        if hint:
            self.hint = hint

    def continued_by(self, verb: str, options: str = "") -> None:
        """Let the hint name this command, where it names the one that goes on with a crawl.

        >>> full = FieldmouseError("the disk is full", "make room, then `fieldmouse resume atlas`")
        >>> full.continued_by("agent", " --coordinator URL")
        >>> full.hint
        'make room, then `fieldmouse agent atlas --coordinator URL`'
        """
        self.hint = re.sub(
            r"`fieldmouse resume\b([^`]*)", lambda found: f"`fieldmouse {verb}{found[1]}{options}", self.hint
        )


class UsageError(FieldmouseError):
    """A command, option or setting that cannot be meant (exit code 2)."""


class SettingsError(UsageError):
    """`fieldmouse.toml` or an option holds a value we cannot use."""


class CrawlDirError(FieldmouseError):
    """The crawl directory cannot be used as asked."""


class CrawlLocked(CrawlDirError):
    """Another process is crawling in this directory."""

    def __init__(self, path: Path, owner_pid: int):
        ours = owner_pid == os.getpid()
        other = f"process {owner_pid}" if owner_pid else "another process"
        super().__init__(f"`{path}` is in use by {'this process' if ours else other}")
        self.path, self.owner_pid = path, owner_pid
        self.hint = f"stop it first, or look at it with `fieldmouse doctor {typed(path)}`"
        if ours:
            self.hint = (
                "leave the loop that goes through it, or `close` that crawl, first;"
                " after `async for`, `await crawl.aclose()` waits for its end"
            )


class NotACrawl(CrawlDirError):
    """There is no crawl where one was expected."""

    def __init__(self, path: Path):
        super().__init__(f"`{path}` holds no crawl")
        self.path = path
        self.hint = f"start one with `fieldmouse crawl {typed(path)} --seed https://...`"
        if (path / "journal").exists():
            self.hint = f"there was one: `fieldmouse doctor {typed(path)}` says what can be saved"


class CrawlExists(CrawlDirError):
    """A new crawl was asked for where one lives already."""

    def __init__(self, path: Path):
        super().__init__(f"`{path}` holds a crawl already")
        self.path = path
        self.hint = f"continue it with `fieldmouse resume {typed(path)}`, or choose another directory"


class WrongFormat(CrawlDirError):
    """The directory was written by a version whose files we do not read."""

    def __init__(self, path: Path, found: int, wanted: int):
        super().__init__(f"`{path}` is a crawl of format {found}; this fieldmouse reads format {wanted}")
        self.path, self.found, self.wanted = path, found, wanted
        self.hint = "use the fieldmouse that wrote it, or export the pages with that one"


class Damaged(CrawlDirError):
    """A file of the crawl is not what the journal says it is."""

    def __init__(self, path: Path, what: str, besides: str = ""):
        """`besides` is what the hint says after naming doctor."""
        super().__init__(f"`{path}` is damaged: {what}")
        self.path = path
        doctor = f"`fieldmouse doctor {typed(home_of(path))}` says what can be saved"
        self.hint = f"{doctor}; {besides}" if besides else doctor


class Missing(Damaged):
    """A file that the journal names is not there."""

    def __init__(self, path: Path):
        super().__init__(path, "the journal names it, and it is gone")


def home_of(path: Path) -> Path:
    """The crawl that a file belongs to: the nearest directory above it that holds one."""
    for directory in path.parents:
        if (directory / "crawl.json").exists():
            return directory
    return path.parent


class ForeignParcel(CrawlDirError):
    """A host's parcel was brought to a crawl that cannot take it in."""

    def __init__(self, path: Path, what: str):
        super().__init__(f"the parcel `{path}` cannot be adopted: {what}")
        self.hint = "bring it to the crawl it is for; crawls that exchange hosts are made with one key secret"


class IndexDamaged(ValueError):
    """The full-text index stumbled over one of its files. Whoever uses it names the index."""


class StorageError(CrawlDirError):
    """Our own disk, or a store on it, refused to read or write: no page's fault, and what counts is safe."""

    def __init__(self, path: Path, trouble: Exception):
        why = getattr(trouble, "strerror", None) or str(trouble) or type(trouble).__name__
        named = getattr(trouble, "filename", None)
        super().__init__(f"cannot read or write `{named or path}`: {why}")
        # A store on the disk keeps the number to itself and passes on the words.
        mend = "see that the disk is well"
        if any(words in why for words in _FULL):
            mend = "make room"
        elif any(words in why for words in _FORBIDDEN):
            mend = "see that you may read and write there"
        elif any(words in why for words in _TOO_MANY):
            mend = "allow more open files (`ulimit -n`)"
        home = path if (path / "crawl.json").exists() else home_of(path)
        if isinstance(trouble, IndexDamaged):
            mend = f"`fieldmouse doctor {typed(home)} --repair` builds the index again"
        self.hint = f"{mend}; nothing is lost: then continue with `fieldmouse resume {typed(home)}`"


@contextmanager
def storing(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """What fails in here fails because of our own disk; `kinds` are what a store on it raises then."""
    errors: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except errors as trouble:
        raise StorageError(path, trouble) from trouble


class StoppedAtOnce(FieldmouseError):
    """Whoever runs the crawl asked twice: it ends where it stands (exit code 130)."""

    def __init__(self) -> None:
        super().__init__("stopped at once", "nothing is lost: the next run fetches the last pages again")


class StillBusy(FieldmouseError):
    """An agent that was to leave could not finish what it had."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the last pages of this agent were not done within {seconds:g} s, and are left to others",
            "see that disk and machine are well; nothing is lost, and the same command lets it go on",
        )


class BoardError(FieldmouseError):
    """The board of a crawl on many machines cannot be used as asked."""


class BoardUnreachable(BoardError):
    """Its server does not answer; nobody knows whether it did what it was asked last."""


class Fenced(BoardError):
    """The board has given what this agent held to others: it must join again."""


class Superseded(Fenced):
    """A newer start of the same agent has joined: this one ends. Perhaps its directory was copied."""


class BoardLost(BoardError):
    """The board knows nothing of a crawl that it had: its server lost its data."""
