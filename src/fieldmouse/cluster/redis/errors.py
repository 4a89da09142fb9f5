"""Translation of server errors into errors that name the server and a remedy. It covers all of them.

An error that an operator can fix while agents wait becomes `CoordinatorUnreachable`: memory, disk, a
failover, a slow script. An error that waiting would not fix becomes a `CoordinatorError`, which ends the
agent; a restarted agent continues. A `ScriptRefusal` is a refusal by our own scripts.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator

from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterCrossSlotError,
    ClusterDownError,
    InvalidResponse,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import TimeoutError as TooLate

from fieldmouse.errors import CoordinatorError, CoordinatorUnreachable
from fieldmouse.http.tls import tls_error_text

REFUSAL_CODES = ("LOST", "HIDDEN", "HELD", "FENCED", "NEWER", "OLDER")
"""Words with which our scripts refuse."""
_REACH_HINT = "check that a Redis server runs there and that it can be reached from here"
_TEMPORARY = {
    "LOADING": ("is still reading its data from disk", ""),
    "OOM": ("has no memory left", "give it more (`maxmemory`), or another server"),
    "MISCONF": ("cannot write to its disk", "free some space there; everything unsent is sent later"),
    "READONLY": ("is a replica, which accepts no writes", "name its primary, or make it one"),
    "MASTERDOWN": ("is a replica that has lost its primary", "name the primary, or bring it back"),
    "NOREPLICAS": ("has too few replicas to accept writes", "bring them back (`min-replicas-to-write`)"),
    "CLUSTERDOWN": ("is a node of a cluster that is down", "restart the other nodes of the cluster"),
    "TRYAGAIN": ("is a node of a cluster that is being moved", ""),
    "BUSY": ("is busy with a slow script", "`redis-cli SCRIPT KILL` ends it, if it is not ours"),
    "KILLED": ("was told to kill our script", ""),
    "STRANGE": ("answers, but not as a Redis server does", "check that the URL names one, and its port"),
}
_WORDS: dict[type[RedisError], str] = {
    BusyLoadingError: "LOADING",
    OutOfMemoryError: "OOM",
    ReadOnlyError: "READONLY",
    MasterDownError: "MASTERDOWN",
    ClusterDownError: "CLUSTERDOWN",
    TryAgainError: "TRYAGAIN",
    InvalidResponse: "STRANGE",
}
"""The client removes the leading word of an error that it knows."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE")
_BAD_CERTIFICATE = ("PEM_LIB", "NO_CERTIFICATE_OR_CRL_FOUND", "NO_START_LINE", "KEY_VALUES_MISMATCH")
_PASSED_ON = re.compile(r"(?:^|[\s:-])(OOM|MISCONF|READONLY|NOREPLICAS|BUSY|CLUSTERDOWN) ")
"""A script passes on the error of a command that it ran; before server version 7 in the middle of a sentence.
"""


class ScriptRefusal(Exception):
    """Refusal by a script; `word` is one of `REFUSAL_CODES`, `about` the text after it."""

    def __init__(self, word: str, about: str = "") -> None:
        super().__init__(word)
        self.code, self.detail = word, about


def is_unreachable(trouble: BaseException) -> bool:
    """Whether the server did not answer at all: other connections to it are useless, too."""
    return isinstance(_unwrap(trouble), (TooLate, NotConnected, OSError)) and not _temporary(trouble)


def translate_error(trouble: Exception, label: str, query: str = "") -> Exception:
    """Translate an error of the server with that label and the URL query `query`."""
    if refused := _tls_error(trouble, label, query):
        return refused
    cause = _unwrap(trouble)
    text = str(cause)
    word, _, about = text.partition(" ")
    if isinstance(cause, ResponseError) and word in REFUSAL_CODES:
        return ScriptRefusal(word, about)
    if waited := _temporary(cause):
        return CoordinatorUnreachable(f"the coordinator at {label} {waited[0]}", waited[1] or _REACH_HINT)
    match cause:
        case AuthenticationError() | AuthorizationError() | NoPermissionError():
            return CoordinatorError(
                f"the coordinator at {label} requires the right password: {text}",
                "put it into the URL, as in redis://:PASSWORD@host:port/0",
            )
        case TooLate() | NotConnected() | OSError():
            return CoordinatorUnreachable(f"the coordinator at {label} does not answer", _REACH_HINT)
        case AskError() | ClusterCrossSlotError():
            return CoordinatorError(
                f"the coordinator at {label} is a node of a cluster, and the crawl is on another: {text}",
                "name a standalone server, or the node that has the whole crawl",
            )
        case ResponseError() if "DB index" in text:
            return CoordinatorError(
                f"the server does not have the database number of {label}",
                "there are 16 unless its `databases` says otherwise: 0 to 15",
            )
        case ResponseError() if "WRONGTYPE" in text:
            return unreadable_data_error(label, text)
    return CoordinatorError(
        f"the coordinator at {label} refuses: {' '.join(text.split())[:300] or type(cause).__name__}",
        "it must be a Redis-protocol server of version 6.2 or newer that may run scripts;"
        " after that the same command continues the crawl",
    )


def unreadable_data_error(label: str, why: object) -> CoordinatorError:
    """Error for data on the server that this version did not write."""
    return CoordinatorError(
        f"the data of the coordinator at {label} cannot be read: {' '.join(str(why).split())[:300]}",
        "another program, or another version of fieldmouse, has written there: use that version, or"
        " another database of the server (redis://host:port/1)",
    )


def _temporary(trouble: BaseException) -> tuple[str, str] | None:
    trouble = _unwrap(trouble)
    for kind, word in _WORDS.items():
        if isinstance(trouble, kind):
            return _TEMPORARY[word]
    if isinstance(trouble, ResponseError):
        if passed_on := _PASSED_ON.search(str(trouble)):
            return _TEMPORARY[passed_on[1]]
        if "killed by user" in str(trouble):
            return _TEMPORARY["KILLED"]
    return None


def _unwrap(trouble: BaseException) -> BaseException:
    """Unwrap an error that the client raised while it made a connection."""
    return trouble.__cause__ if isinstance(trouble.__cause__, RedisError) else trouble


def _causes(trouble: BaseException | None) -> Iterator[BaseException]:
    while trouble is not None:
        yield trouble
        trouble = trouble.__cause__ or trouble.__context__


def _tls_error(trouble: BaseException, label: str, query: str) -> CoordinatorError | None:
    """Errors of TLS, or of files named in the URL: waiting would not help."""
    for around in _causes(trouble):
        if isinstance(around, ssl.SSLCertVerificationError):
            return CoordinatorError(
                f"the certificate of the coordinator at {label} is not trusted: {tls_error_text(around)}",
                "name the file of its authority: rediss://host:port/0?ssl_ca_certs=FILE",
            )
        if isinstance(around, FileNotFoundError) and "ssl" in query:
            return CoordinatorError(
                f"a file named in the URL of the coordinator at {label} does not exist",
                "check the part after the question mark",
            )
        if isinstance(around, ssl.SSLError) and around.reason in _BAD_CERTIFICATE:
            return CoordinatorError(
                f"a file named in the URL of the coordinator at {label} has no certificate, or not its key",
                "check the part after the question mark",
            )
        if isinstance(around, ssl.SSLError) and around.reason in _NO_TLS:
            return CoordinatorError(
                f"the coordinator at {label} does not speak TLS",
                "name it with redis://, or the port where it does",
            )
    return None
