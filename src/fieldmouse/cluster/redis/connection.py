"""Connection to the Redis-protocol server of a coordinator, calls of its Lua scripts, and errors that name the server
and a remedy.

Each script is a file in `lua/` with its contract at its head. The first line names the pieces it needs
(`-- uses: begin rows`); they are joined here, once.

An error that an operator can fix while agents wait becomes `CoordinatorUnreachable`: memory, disk, a
failover, a slow script. An error that waiting would not fix becomes a `CoordinatorError`, which ends the
agent; a restarted agent continues. A `ScriptRefusal` is a refusal by our own scripts.
"""

from __future__ import annotations

import hashlib
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import hiredis
import redis.asyncio as aioredis
from redis import exceptions
from redis.asyncio.connection import DefaultParser
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from fieldmouse.cluster.error_messages import RESTORE_HINT
from fieldmouse.errors import CoordinatorDataLost, CoordinatorError, CoordinatorUnreachable, UsageError
from fieldmouse.http.connection import ignore_common_names, tls_error_text

#: Words with which our scripts refuse.
REFUSAL_CODES = ("LOST", "HIDDEN", "HELD", "FENCED", "NEWER", "OLDER")
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
#: The client removes the leading word of an error that it knows.
_WORDS: dict[type[exceptions.RedisError], str] = {
    exceptions.BusyLoadingError: "LOADING",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.TryAgainError: "TRYAGAIN",
    exceptions.InvalidResponse: "STRANGE",
}
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE")
_BAD_CERTIFICATE = ("PEM_LIB", "NO_CERTIFICATE_OR_CRL_FOUND", "NO_START_LINE", "KEY_VALUES_MISMATCH")
#: A script passes on the error of a command that it ran; before server version 7 in the middle of a sentence.
_PASSED_ON = re.compile(r"(?:^|[\s:-])(OOM|MISCONF|READONLY|NOREPLICAS|BUSY|CLUSTERDOWN) ")


class ScriptRefusal(Exception):
    """Refusal by a script; `word` is one of `REFUSAL_CODES`, `about` the text after it."""

    def __init__(self, word: str, about: str = "") -> None:
        super().__init__(word)
        self.code, self.detail = word, about


def is_unreachable(trouble: BaseException) -> bool:
    """Whether the server did not answer at all: other connections to it are useless, too."""
    silent = (exceptions.TimeoutError, exceptions.ConnectionError, OSError)
    return isinstance(_unwrap_connect_error(trouble), silent) and not _temporary_problem(trouble)


def translate_error(trouble: Exception, label: str, query: str = "") -> Exception:
    """Translate an error of the server with that label and the URL query `query`."""
    if refused := _tls_error(trouble, label, query):
        return refused
    cause = _unwrap_connect_error(trouble)
    text = str(cause)
    word, _, about = text.partition(" ")
    if isinstance(cause, exceptions.ResponseError) and word in REFUSAL_CODES:
        return ScriptRefusal(word, about)
    if waited := _temporary_problem(cause):
        return CoordinatorUnreachable(f"the coordinator at {label} {waited[0]}", waited[1] or _REACH_HINT)
    match cause:
        case exceptions.AuthenticationError() | exceptions.AuthorizationError() | exceptions.NoPermissionError():
            return CoordinatorError(
                f"the coordinator at {label} requires the right password: {text}",
                "put it into the URL, as in redis://:PASSWORD@host:port/0",
            )
        case exceptions.TimeoutError() | exceptions.ConnectionError() | OSError():
            return CoordinatorUnreachable(f"the coordinator at {label} does not answer", _REACH_HINT)
        case exceptions.AskError() | exceptions.ClusterCrossSlotError():
            return CoordinatorError(
                f"the coordinator at {label} is a node of a cluster, and the crawl is on another: {text}",
                "name a standalone server, or the node that has the whole crawl",
            )
        case exceptions.ResponseError() if "DB index" in text:
            return CoordinatorError(
                f"the server does not have the database number of {label}",
                "there are 16 unless its `databases` says otherwise: 0 to 15",
            )
        case exceptions.ResponseError() if "WRONGTYPE" in text:
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


def _temporary_problem(trouble: BaseException) -> tuple[str, str] | None:
    trouble = _unwrap_connect_error(trouble)
    for kind, word in _WORDS.items():
        if isinstance(trouble, kind):
            return _TEMPORARY[word]
    if isinstance(trouble, exceptions.ResponseError):
        if passed_on := _PASSED_ON.search(str(trouble)):
            return _TEMPORARY[passed_on[1]]
        if "killed by user" in str(trouble):
            return _TEMPORARY["KILLED"]
    return None


def _unwrap_connect_error(trouble: BaseException) -> BaseException:
    """Unwrap an error that the client raised while it made a connection."""
    return trouble.__cause__ if isinstance(trouble.__cause__, exceptions.RedisError) else trouble


def _error_chain(trouble: BaseException | None) -> Iterator[BaseException]:
    while trouble is not None:
        yield trouble
        trouble = trouble.__cause__ or trouble.__context__


def _tls_error(trouble: BaseException, label: str, query: str) -> CoordinatorError | None:
    """Errors of TLS, or of files named in the URL: waiting would not help."""
    for around in _error_chain(trouble):
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
                f"the coordinator at {label} does not speak TLS", "name it with redis://, or the port where it does"
            )
    return None


_USES = "-- uses: "


class LuaScript(NamedTuple):
    """A script as sent to the server, and the digest by which it is called afterwards."""

    text: str
    digest: str


@cache
def load_script(name: str) -> LuaScript:
    """Script of that name, after the pieces that it uses."""
    body = _lua_source(name)
    first = body.partition("\n")[0]
    pieces = first.removeprefix(_USES).split() if first.startswith(_USES) else []
    text = "\n".join([*map(_lua_source, pieces), body])
    return LuaScript(text, hashlib.sha1(text.encode()).hexdigest())


@cache
def _lua_source(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text()


URL_SCHEMES = ("redis", "rediss", "unix")
_BOOLEAN = "true|false|yes|no|1|0|on|off|t|f|y|n"
#: Options in the query of a coordinator URL, named as in the client, with the pattern of their values.
URL_OPTIONS = {
    "db": r"\d{1,9}",
    "ssl_ca_certs": r".+",
    "ssl_certfile": r".+",
    "ssl_keyfile": r".+",
    "ssl_cert_reqs": "none|optional|required",
    "ssl_check_hostname": _BOOLEAN,
}
_VALUE_HINTS = {
    "db": "the number of a database",
    "ssl_cert_reqs": "none, optional or required",
    "ssl_check_hostname": "true or false",
}

#: Bytes of one reply. The scripts send less; `decoding` has the limits of its parts.
MOST_REPLY_BYTES = 64 << 20

ScriptArgument = str | bytes | int


def url_label(url: str) -> str:
    """Coordinator URL for people: without password, with the database.

    >>> url_label("redis://:secret@redis.example:6380/2")
    'redis://redis.example:6380/2'
    >>> url_label("unix:///run/board.sock?ssl_cert_reqs=none&db=2")
    'unix:///run/board.sock?db=2'

    A password with characters that a URL must escape is removed completely, too:

    >>> url_label("redis://:se@cr/et?@redis.example:6380/2")
    'redis://redis.example:6380/2'
    """
    match = re.search(rf"\?({'|'.join(sorted(URL_OPTIONS))})=.*", url)
    plain, options = (url[: match.start()], match[0][1:]) if match else (url, "")
    if not plain.startswith("unix:///"):
        plain = re.sub(r"(?<=://).*@", "", plain)
    address = plain.partition("?")[0]
    database = dict(parse_qsl(options)).get("db", "")
    return f"{address}?db={database}" if database else address


def check_url(url: str) -> str:
    """Return the URL of a server if it is valid. Raises a UsageError that shows the format."""
    label = url_label(url)
    try:
        parts = urlsplit(url)
        named = parts.path if parts.scheme == "unix" else parts.hostname
        parts.port  # noqa: B018  a port that is no number is found out by asking for it
    except ValueError:
        parts, named = urlsplit(""), None
    numbered = parts.scheme == "unix" or re.fullmatch(r"/?\d{0,9}", parts.path)
    if parts.scheme not in URL_SCHEMES or not named or not numbered or parts.fragment or "@" in parts.query:
        escaped = "; in a password, write @ / ? # % as %40 %2F %3F %23 %25" if "@" in url else ""
        raise UsageError(
            f"`{label}` is no coordinator",
            "name its server as redis://[:password@]host:port/0, rediss://... for TLS, or"
            f" unix:///path/of.sock{escaped}",
        )
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in URL_OPTIONS:
            raise UsageError(
                f"`{name}` is no option of the coordinator `{label}`",
                f"the options after the question mark are {', '.join(sorted(URL_OPTIONS))}",
            )
        if name != "db" and parts.scheme != "rediss":
            raise UsageError(f"`{name}` of the coordinator `{label}` is for TLS", "name it as rediss://host:port/0")
        if not re.fullmatch(URL_OPTIONS[name], value, re.IGNORECASE):
            raise UsageError(
                f"`{name}` of the coordinator `{label}` cannot be `{value}`",
                f"it is {_VALUE_HINTS.get(name, 'a file')}",
            )
    return url


class _TlsConnection(aioredis.SSLConnection):
    """TLS connection that ignores the CN of a certificate's subject."""

    def _connection_arguments(self) -> Any:
        arguments = super()._connection_arguments()
        ignore_common_names(arguments["ssl"])
        return arguments


class _BoundedParser(DefaultParser):  # type: ignore[valid-type,misc]  # it has one class, chosen at import
    """Parser that accepts at most `MOST_REPLY_BYTES` bytes for one reply."""

    _fed = 0

    async def read_response(self, *words: Any, **more: Any) -> Any:
        self._fed = 0
        return await super().read_response(*words, **more)

    async def read_from_socket(self) -> bool:
        if self._fed > MOST_REPLY_BYTES:
            raise exceptions.InvalidResponse(f"a reply of more than {MOST_REPLY_BYTES >> 20} MiB")
        chunk = await self._stream.read(self._read_size)
        if not chunk:
            raise exceptions.ConnectionError("the server closed the connection")
        self._fed += len(chunk)
        self._reader.feed(chunk)
        return True


def _run_id(info: bytes) -> str | None:
    match = re.search(rb"run_id:(\w{1,64})", info)
    return match[1].decode() if match else None


class RedisClient:
    """Connections to one server."""

    def __init__(self, url: str, timeout: float = 10.0, connections: int = 8) -> None:
        self.label, self._query = url_label(url), urlsplit(check_url(url)).query
        self._runs: dict[int, str] = {}
        self._evicted: int | None = None  # evicted keys at the last check
        self._pool: Any = aioredis.BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=timeout,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=self._connect_and_read_run_id,
            protocol=2,
            client_name="fieldmouse",
            parser_class=_BoundedParser,
        )
        if self._pool.connection_class is aioredis.SSLConnection:
            self._pool.connection_class = _TlsConnection

    async def _connect_and_read_run_id(self, connection: Any) -> None:
        await connection.on_connect()
        await connection.send_command("INFO", "server")
        reply = await connection.read_response()
        run = _run_id(reply) if isinstance(reply, bytes) else None
        if run is None:
            raise exceptions.InvalidResponse("the server does not report its run id")
        self._runs[id(connection)] = run

    async def run_script(self, script: LuaScript, keys: Sequence[str], arguments: Sequence[ScriptArgument]) -> Any:
        """Run a script.

        Raises `CoordinatorUnreachable` if it is unknown whether it ran, and `ScriptRefusal` for a refusal.
        """
        async with self._connection() as connection:
            tail = (len(keys), *keys, self._runs[id(connection)], *arguments)
            try:
                return await self._send_and_read_reply(connection, "EVALSHA", script.digest, *tail)
            except exceptions.NoScriptError:
                return await self._send_and_read_reply(connection, "EVAL", script.text, *tail)

    async def run_command(self, *words: ScriptArgument) -> Any:
        """Run a command that may be repeated."""
        async with self._connection() as connection:
            return await self._send_and_read_reply(connection, *words)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """A connection of the pool. Errors of the server are translated."""
        try:
            connection = await self._pool.get_connection()
            try:
                yield connection
            finally:
                await self._pool.release(connection)
        except (exceptions.RedisError, OSError) as trouble:
            if is_unreachable(trouble):
                # The other connections of the pool lead to the same server.
                await self._pool.disconnect(inuse_connections=False)
            raise translate_error(trouble, self.label, self._query) from trouble

    async def server_identity(self) -> str:
        """Identity of the server and its database, whatever name it was reached by."""
        run, database = _run_id(await self._server_info("server")), self._pool.connection_kwargs.get("db") or 0
        return f"{run}/{database}" if run else self.label

    async def _server_info(self, section: str) -> bytes:
        reply = await self.run_command("INFO", section)
        if not isinstance(reply, bytes):
            raise unreadable_data_error(self.label, "INFO is no text")
        return reply

    async def check_no_eviction(self) -> None:
        """Check that the server does not evict keys when its memory is full: URLs would be lost silently."""
        memory = await self._server_info("memory")
        limit = re.search(rb"maxmemory:(\d{1,19})", memory)
        policy = re.search(rb"maxmemory_policy:([A-Za-z-]{1,64})", memory)
        gone = re.search(rb"evicted_keys:(\d{1,19})", await self._server_info("stats"))
        before, self._evicted = self._evicted, int(gone[1]) if gone else 0
        if before is not None and self._evicted > before:
            raise CoordinatorDataLost(
                f"the coordinator at {self.label} has evicted data because its memory was full",
                f"set `maxmemory-policy noeviction` there, and give it more memory; then {RESTORE_HINT}",
            )
        if limit and int(limit[1]) and policy and policy[1] != b"noeviction":
            raise CoordinatorError(
                f"the coordinator at {self.label} evicts data when its memory is full ({policy[1].decode()})",
                "set `maxmemory-policy noeviction` there",
            )

    async def _send_and_read_reply(self, connection: Any, *words: ScriptArgument) -> Any:
        try:
            # The client packs commands in Python, which took most of the time here.
            packed = hiredis.pack_command(words)  # type: ignore[arg-type]  # its stub wants one word
            await connection.send_packed_command(packed)
            return await connection.read_response()
        except exceptions.ResponseError:
            raise  # an answer like any other: the connection stays usable
        except ValueError as nonsense:
            await connection.disconnect(nowait=True)
            raise exceptions.InvalidResponse(str(nonsense)) from nonsense
        except BaseException:
            # Cancelled or broken: a late answer must not be taken for the next one.
            await connection.disconnect(nowait=True)
            raise

    async def close(self) -> None:
        await self._pool.disconnect()
