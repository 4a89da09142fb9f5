"""The way to a board's server: its URL, its connections, and what its errors mean.

A call takes one connection and runs one script. With each call goes the run id of the server that the
connection leads to, asked for when it was made: a connection never outlives its server, so a script knows
whether the server is the one that wrote last. Nothing is tried twice here: whether a call whose answer was
lost may be repeated is known by who made it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import hiredis
import redis.asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import TimeoutError as TooLate

from fieldmouse.balancer.board.server.scripts import BoardScript
from fieldmouse.errors import BoardError, BoardUnreachable, UsageError

SCHEMES = ("redis", "rediss", "unix")
OPTIONS = frozenset(
    {"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}
)
"""What may stand behind the `?` of a board's URL; the client's own words."""

Argument = str | bytes | int


def label_of(url: str) -> str:
    """A board's URL as people may see it, without its password; a database is a part of it.

    >>> label_of("redis://:secret@board.example:6380/2")
    'redis://board.example:6380/2'
    >>> label_of("unix:///run/board.sock?ssl_cert_reqs=none&db=2")
    'unix:///run/board.sock?db=2'
    """
    address, _, options = re.sub(r"(?<=://)[^/@]*@", "", url).partition("?")
    database = dict(parse_qsl(options)).get("db", "")
    return f"{address}?db={database}" if database else address


def checked_url(url: str) -> str:
    """The URL of a server, or a UsageError that says what one looks like."""
    try:
        parts = urlsplit(url)
        named = parts.path if parts.scheme == "unix" else parts.hostname
        parts.port  # noqa: B018  a port that is no number is found out by asking for it
    except ValueError:
        parts, named = urlsplit(""), None
    numbered = parts.scheme == "unix" or re.fullmatch(r"/?\d*", parts.path)
    if parts.scheme not in SCHEMES or not named or not numbered:
        raise UsageError(
            f"`{label_of(url)}` is no board",
            "name its server as redis://[:password@]host:port/0, rediss://... for TLS, or unix:///path/of.sock",
        )
    strange = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if name not in OPTIONS]
    if strange:
        raise UsageError(
            f"`{strange[0]}` is no option of the board `{label_of(url)}`",
            f"behind the question mark may stand {', '.join(sorted(OPTIONS))}",
        )
    return url


class BoardServer:
    """Connections to one server."""

    def __init__(self, url: str, timeout: float = 10.0, connections: int = 8) -> None:
        self.label, self._query = label_of(url), urlsplit(checked_url(url)).query
        self._runs: dict[int, str] = {}
        self._pool: Any = aioredis.BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=timeout,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=self._greet,
            protocol=2,
            client_name="fieldmouse",
        )

    async def _greet(self, connection: Any) -> None:
        await connection.on_connect()
        await connection.send_command("INFO", "server")
        told: bytes = await connection.read_response()
        found = re.search(rb"run_id:(\w+)", told)
        self._runs[id(connection)] = found[1].decode() if found else "unknown"

    async def call(self, script: BoardScript, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """Run a script. Raises `BoardUnreachable` if nobody knows whether it ran."""
        try:
            connection = await self._pool.get_connection()
            try:
                run = self._runs[id(connection)]
                tail = (len(keys), *keys, run, *arguments)
                try:
                    return await self._ask(connection, "EVALSHA", script.digest, *tail)
                except NoScriptError:
                    return await self._ask(connection, "EVAL", script.text, *tail)
            finally:
                await self._pool.release(connection)
        except (RedisError, OSError) as trouble:
            raise await self._meaning(trouble) from trouble

    async def command(self, *words: Argument) -> Any:
        """Run a command that changes nothing."""
        try:
            connection = await self._pool.get_connection()
            try:
                return await self._ask(connection, *words)
            finally:
                await self._pool.release(connection)
        except (RedisError, OSError) as trouble:
            raise await self._meaning(trouble) from trouble

    async def identity(self) -> str:
        """Which database of which server this is, whatever the server is called."""
        told: bytes = await self.command("INFO", "server")
        run, database = re.search(rb"run_id:(\w+)", told), self._pool.connection_kwargs.get("db") or 0
        return f"{run[1].decode()}/{database}" if run else self.label

    async def check_that_it_keeps(self) -> None:
        """A server that throws keys away when its memory is full would lose URLs without a word."""
        told: bytes = await self.command("INFO", "memory")
        limit = re.search(rb"maxmemory:(\d+)", told)
        policy = re.search(rb"maxmemory_policy:([\w-]+)", told)
        if limit and int(limit[1]) and policy and policy[1] != b"noeviction":
            raise BoardError(
                f"the board at {self.label} throws data away when its memory is full ({policy[1].decode()})",
                "set `maxmemory-policy noeviction` there",
            )

    async def _ask(self, connection: Any, *words: Argument) -> Any:
        try:
            # The client's own way to pack a command is written in Python, and took most of our time here.
            packed = hiredis.pack_command(words)  # type: ignore[arg-type]  # its stub wants one word
            await connection.send_packed_command(packed)
            return await connection.read_response()
        except ResponseError:
            raise  # an answer like any other: the connection is as good as before
        except BaseException:
            # Cancelled or broken: an answer that comes later must not be taken for the next one's.
            await connection.disconnect(nowait=True)
            raise

    async def _meaning(self, trouble: Exception) -> Exception:
        if isinstance(trouble.__cause__, RedisError):  # what went wrong while a connection was made
            trouble = trouble.__cause__
        if refused := self._refused(trouble):
            return refused
        match trouble:
            case AuthenticationError() | AuthorizationError() | NoPermissionError():
                return BoardError(
                    f"the board at {self.label} lets nobody in without the right password: {trouble}",
                    "put it into the URL, as in redis://:PASSWORD@host:port/0",
                )
            case ReadOnlyError():
                return BoardError(
                    f"the board at {self.label} is a replica, which takes no writes", "name its primary"
                )
            case BusyLoadingError():
                return self._unreachable("is still reading its data from disk")
            case OutOfMemoryError():
                return self._unreachable(
                    "has no memory left", "give it more (`maxmemory`), or another server"
                )
            case TooLate() | NotConnected() | OSError():
                # Whoever else waits in the pool leads to the same server that went away.
                await self._pool.disconnect(inuse_connections=False)
                return self._unreachable("does not answer")
            case ResponseError() if "DB index" in str(trouble):
                return BoardError(
                    f"the server has no database of the number in {self.label}",
                    "there are 16 unless its `databases` says otherwise: 0 to 15",
                )
            case ResponseError() if str(trouble).startswith("MISCONF"):
                return self._unreachable("cannot write to its disk")
            case _:
                return trouble

    def _refused(self, trouble: BaseException) -> BoardError | None:
        """Trouble with TLS, or with files that the URL names: waiting would not help."""
        around: BaseException | None = trouble
        while around is not None:
            if isinstance(around, ssl.SSLCertVerificationError):
                return BoardError(
                    f"the certificate of the board at {self.label} is not trusted: {around.verify_message}",
                    "name the file of its authority: rediss://host:port/0?ssl_ca_certs=FILE",
                )
            if isinstance(around, FileNotFoundError) and "ssl" in self._query:
                return BoardError(
                    f"a file that the URL of the board at {self.label} names is not there",
                    "check what stands behind the question mark",
                )
            around = around.__cause__ or around.__context__
        return None

    def _unreachable(self, what: str, hint: str = "") -> BoardUnreachable:
        return BoardUnreachable(
            f"the board at {self.label} {what}",
            hint or "see that a Redis server runs there, and that it can be reached from here",
        )

    async def close(self) -> None:
        await self._pool.disconnect()
