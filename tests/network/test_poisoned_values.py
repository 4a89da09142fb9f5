"""Real agents on a real server whose values are damaged during the crawl: all survive and fetch all other
pages."""

from __future__ import annotations

import random
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import redis
import zstandard

from cluster.coordinators import META, ServerProcess, a_server, needs_server
from cluster.fuzz_decoding import claiming_frame
from fieldmouse.cluster import decoding as blocks
from meadowland import running_meadow
from whole import crawling

PREFIX = META.removesuffix("meta")
DIGITS = b"9" * 400
BOMB = zstandard.ZstdCompressor().compress(bytes(3 << 28))
SMALL = {"hosts": 12, "pages": 160, "seed": 5, "page_kb": 1.0, "busy": 0.0}
_PATIENCE = 240.0  # seconds in which a crawl of this size must end on a busy machine


def bad_blocks(key: int) -> tuple[bytes, ...]:
    """Unreadable blocks of one row, with that key if they have one."""
    packed = b"z" + struct.pack("<IQ", 1, key)
    rows = (
        b"\x91\xa3/\xff\xfe",
        b"\x91" * 5000,
        b"",
        b"\x91\xa5/page",  # a URL whose key is another
        b"\x91\xa9.evil.com",
    )
    return (
        b"",
        b"r\x05",
        b"q" + bytes(40),
        b"r" + struct.pack("<I", 2**31),
        packed + b"no zstd",
        packed + BOMB,
        packed + claiming_frame(16 << 40),
        *(blocks.encode_block([(key, row)]) for row in rows),
    )


_OFFER = """
local P, host, blob = KEYS[1], ARGV[1], ARGV[2]
redis.call('RPUSH', P .. 'q:' .. host, blob)
redis.call('HINCRBY', P .. 'meta', 'seen', 1)
local known = redis.call('HMGET', P .. 'h:' .. host, 'by', 'p')
if redis.call('HINCRBY', P .. 'h:' .. host, 'n', 1) == 1 and not known[1] then
  redis.call('ZADD', P .. 'r:' .. (known[2] or ''), 1, host)
end
"""


class Poisoner:
    """Damages values on the server at random until the crawl is over. No page is lost by it."""

    def __init__(self, client: redis.Redis, seed: int):
        self._client, self._dice, self.done = client, random.Random(seed), 0

    def _hosts(self) -> list[bytes]:
        return [key.removeprefix(f"{PREFIX}h:".encode()) for key in self._client.scan_iter(f"{PREFIX}h:*")]

    def some(self) -> None:
        hosts = self._hosts()
        if not hosts:
            return
        self._dice.choice((self._host, self._block, self._advert, self._agent, self._address, self._kinds))(
            self._dice.choice(hosts)
        )
        self.done += 1

    def _host(self, host: bytes) -> None:
        """Damage a field of a host that has URLs."""
        values = {
            "st": (b"\x91\xa3/\xff\xfe", b"\xff" * 200_000),
            "le": (b"\xff\xfe", DIGITS),
            "rt": (BOMB, claiming_frame(16 << 40), b"no zstd"),
            "d": (DIGITS, b"x"),
            "rx": (DIGITS,),
            "raw": (b"\xff",),
            "wu": (b"x",),
            "no": (b"\nx",),
        }
        choices = [(field, value) for field, some in values.items() for value in some]
        field, value = self._dice.choice(choices)
        self._client.hset(f"{PREFIX}h:".encode() + host, field, value)
        self._client.hset(f"{PREFIX}h:".encode() + host, "rx", int(time.time() * 1000) + 600_000)

    def _block(self, host: bytes) -> None:
        """Add an unreadable block to a host: one more seen URL."""
        blob = self._dice.choice(bad_blocks(self.done + 1))  # no URL is seen twice
        self._client.eval(_OFFER, 1, PREFIX, host, blob)

    def _advert(self, host: bytes) -> None:
        for key in self._client.scan_iter(f"{PREFIX}agent:*"):
            self._client.hset(key, "advert", self._dice.choice([b"\xff\xfe", b"\x91" * 9000, BOMB[:9000]]))

    def _agent(self, host: bytes) -> None:
        """Add agents that do not exist."""
        self._client.zadd(f"{PREFIX}names", {b"\xff\xfe": 0, "ghost": 0})
        self._client.zadd(f"{PREFIX}live", {"ghost": self._dice.choice([0, 1 << 60])})
        self._client.hset(f"{PREFIX}agent:ghost", mapping={"inc": DIGITS, "counts": 1, "deadline": DIGITS})

    def _address(self, host: bytes) -> None:
        for key in self._client.scan_iter(f"{PREFIX}a:*"):
            self._client.hset(key, "nb", DIGITS)

    def _kinds(self, host: bytes) -> None:
        self._client.hset(f"{PREFIX}kinds", mapping={"failed": DIGITS, b"\xff\xfe": b"x"})


def _start(home: Path, *words: object) -> subprocess.Popen[bytes]:
    with (home.parent / f"{home.name}.err").open("wb") as talk:
        return subprocess.Popen(
            crawling.command("agent", home, *words, "--json"), stdout=talk, stderr=talk, start_new_session=True
        )


def _standing(server: ServerProcess) -> object:
    """Totals of the crawl, and the hosts with waiting URLs."""
    client = server.client()
    hosts = {key: client.hgetall(key) for key in client.scan_iter(f"{PREFIX}h:*")}
    waiting = {key: its for key, its in hosts.items() if its.get(b"n", b"0") != b"0" or b"by" in its}
    queues = {key: client.zrange(key, 0, -1, withscores=True) for key in client.scan_iter(f"{PREFIX}r:*")}
    owed = {key: client.hgetall(key) for key in client.scan_iter(f"{PREFIX}owe:*")}
    return client.hgetall(META), waiting, queues, owed


def _until(
    happened: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None, state: Callable[[], object] = lambda: ""
) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"nothing happens any more: {state()}"
        meanwhile()
        time.sleep(0.02)


def _talk(home: Path) -> str:
    return (home.parent / f"{home.name}.err").read_text(errors="replace")


def _peak_mb(process: subprocess.Popen[bytes]) -> int:
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM")), 0)


@needs_server
def test_agents_survive_damaged_values_and_fetch_all_other_pages(tmp_path: Path) -> None:
    with a_server() as server, running_meadow(**SMALL) as meadow:
        seeds = [word for seed in meadow.seeds for word in ("--seed", seed)]
        manners = ("--scope", "web", "--delay", "50ms", "--allow-private")
        board = ("--coordinator", server.url, "--set", "storage.checkpoint=500ms")
        settled = ("--set", "cluster.lease=4s", "--set", "cluster.heartbeat=1s")
        homes = [tmp_path / "a", tmp_path / "b"]
        agents = [_start(homes[0], *board, *seeds, *manners, *settled), _start(homes[1], *board, "--allow-private")]
        poisoner, peaks = Poisoner(server.client(), seed=3), [0, 0]

        def hurt() -> None:
            poisoner.some()
            peaks[:] = [max(old, _peak_mb(agent)) for old, agent in zip(peaks, agents, strict=True)]

        try:
            _until(lambda: server.client().hget(META, "begun") == b"1")
            _until(lambda: poisoner.done >= 150, hurt)
            _until(
                lambda: all(agent.poll() is not None for agent in agents),
                state=lambda: f"{_standing(server)}\n{_talk(homes[0])}\n{_talk(homes[1])}",
            )
        finally:
            for agent in agents:
                crawling.end(agent)
        for home, agent in zip(homes, agents, strict=True):
            # A URL that was added while the last agent left explains exit code 3.
            assert agent.returncode in (0, 3), _talk(home)
            assert "Traceback" not in _talk(home)
        crawling.run("agent", homes[1], *board, "--allow-private")
        assert max(peaks) < 1200, "no value may take that much memory"
        assert any("is set aside" in _talk(home) for home in homes)
        status = crawling.run("cluster", "status", "--coordinator", server.url)
        assert status["done"] is True
        assert status["quarantined"] > 0
        crawling.run("crawl", tmp_path / "alone", *seeds, *manners)
    both = {row["url"] for home in homes for row in crawling.exported(home)}
    assert both == {row["url"] for row in crawling.exported(tmp_path / "alone")}


@needs_server
def test_an_agent_with_many_long_robots_txt_values_stops_on_sigterm(tmp_path: Path) -> None:
    rules = b"User-agent: *\n" + b"".join(b"Disallow: /private/%d*a\n" % n for n in range(17_000))
    value = blocks.compress_text(rules[: 499 << 10])
    with a_server() as server, running_meadow(hosts=60, pages=3000, seed=4, page_kb=1.0, busy=0.0) as meadow:
        seeds = [word for seed in meadow.seeds for word in ("--seed", seed)]
        where = ("--coordinator", server.url, "--scope", "web", "--delay", "2s", "--allow-private")
        home = tmp_path / "a"
        first = _start(tmp_path / "first", *where, *seeds)
        client = server.client()
        agent = None
        try:
            _until(lambda: client.zcard(f"{PREFIX}r:") + sum(1 for _ in client.scan_iter(f"{PREFIX}h:*")) > 30)
            first.send_signal(signal.SIGTERM)
            _until(lambda: first.poll() is not None)
            until = int(time.time() * 1000) + 3_600_000
            for key in client.scan_iter(f"{PREFIX}h:*"):
                client.hset(key, mapping={"rt": value, "rx": until})
            agent = _start(home, *where[:2], "--allow-private")
            _until(lambda: any(client.hlen(key) > 20 for key in client.scan_iter(f"{PREFIX}held:*")))
            agent.send_signal(signal.SIGTERM)
            agent.wait(timeout=_PATIENCE)
            assert agent.returncode == 130, _talk(home)
            assert "Traceback" not in _talk(home)
        finally:
            for process in (first, agent):
                if process is not None:
                    crawling.end(process)
