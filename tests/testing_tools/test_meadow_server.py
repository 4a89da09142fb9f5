"""The meadow over sockets: HTTP as clients of all kinds speak it, the arrival log, and time."""

from __future__ import annotations

import gzip
import socket
import struct
import subprocess
import sys
import time

import brotli
import pytest
import zstandard

from fieldmouse.testing import virtual_time
from fieldmouse.testing.meadow.fetcher import MeadowFetcher
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Url, host_of, hostname_of, path_of
from meadowland import running_meadow

CALM = {"changing": 0.0, "server_error": 0.0, "busy": 0.0, "page_kb": 4, "links": 20}


class Client:
    """A raw connection: what goes in and out is bytes."""

    def __init__(self, address: str, port: int, source: str = ""):
        self.socket = socket.create_connection(
            (address, port), timeout=30, source_address=(source, 0) if source else None
        )
        self.reader = self.socket.makefile("rb")

    def send(self, path: str, *headers: str, method: str = "GET", version: str = "1.1") -> None:
        lines = [f"{method} {path} HTTP/{version}", "Host: x", *headers, "", ""]
        self.socket.sendall("\r\n".join(lines).encode())

    def receive(self, with_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        status = int(self.reader.readline().split()[1])
        headers = {}
        while (line := self.reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().strip().partition(": ")
            headers[name.lower()] = value
        body = b""
        if with_body and headers.get("transfer-encoding") == "chunked":
            while size := int(self.reader.readline(), 16):
                body += self.reader.read(size)
                assert self.reader.readline() == b"\r\n"
            assert self.reader.readline() == b"\r\n"
        elif with_body and "content-length" in headers:
            body = self.reader.read(int(headers["content-length"]))
        return status, headers, body

    def ask(self, path: str, *headers: str, **how: str) -> tuple[int, dict[str, str], bytes]:
        self.send(path, *headers, **how)
        return self.receive(with_body=how.get("method") != "HEAD")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()
        self.socket.close()


@pytest.fixture(scope="module")
def meadow():
    with running_meadow(hosts=200, pages=2000, **CALM) as running:
        yield running


@pytest.fixture(scope="module")
def twin(meadow):
    return Meadow(MeadowOptions(hosts=200, pages=2000, **CALM), meadow.port)


def _site(twin, **habits):
    return next(
        site for site in twin.plan.sites if all(getattr(site.habits, name) == value for name, value in habits.items())
    )


def test_one_connection_serves_many_requests_in_order(meadow, twin):
    site = _site(twin, chunked=False, closing=False)
    with Client(site.address, meadow.port) as client:
        for path in ("/", "/nowhere", "/robots.txt", "/"):
            client.send(path)
        statuses = [client.receive()[0] for _ in range(4)]
        assert statuses == [200, 404, 200 if site.habits.has_robots else 404, 200]


def test_a_request_may_come_in_pieces(meadow, twin):
    site = _site(twin, chunked=False, closing=False)
    with Client(site.address, meadow.port) as client:
        for byte in b"GET / HTTP/1.1\r\nHost: x\r\n\r\n":
            client.socket.sendall(bytes([byte]))
        assert client.receive()[0] == 200


def test_head_is_get_without_the_body(meadow, twin):
    site = _site(twin, chunked=False, closing=False)
    with Client(site.address, meadow.port) as client:
        status, headers, body = client.ask("/")
        again, same, nothing = client.ask("/", method="HEAD")
        assert (again, nothing) == (status, b"")
        assert same["content-length"] == headers["content-length"] == str(len(body))
        assert client.ask("/")[2] == body


@pytest.mark.parametrize(
    ("habits", "request_headers", "version"),
    [
        ({"closing": True}, [], "1.1"),
        ({"closing": False}, ["Connection: close"], "1.1"),
        ({"closing": False, "chunked": True}, [], "1.0"),
    ],
    ids=["host closes", "client asks", "http 1.0"],
)
def test_the_connection_closes_when_it_should(meadow, twin, habits, request_headers, version):
    site = _site(twin, **habits)
    with Client(site.address, meadow.port) as client:
        status, headers, _ = client.ask("/", *request_headers, version=version)
        assert status == 200
        assert headers["connection"] == "close"
        assert client.reader.read() == b""


def test_other_methods_than_get_and_head_are_refused(meadow, twin):
    with Client(twin.plan.sites[0].address, meadow.port) as client:
        assert client.ask("/", "Content-Length: 0", method="POST")[0] == 405
    with Client(twin.plan.sites[0].address, meadow.port) as client:
        client.socket.sendall(b"hello\r\n\r\n")
        assert client.receive()[0] == 400
    with Client("127.99.99.99", meadow.port) as client:
        assert client.ask("/")[0] == 404


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", ""])
@pytest.mark.parametrize("chunked", [False, True])
def test_every_encoding_unpacks_to_the_same_page(meadow, twin, encoding, chunked):
    unpack = {
        "gzip": gzip.decompress,
        "br": brotli.decompress,
        "zstd": lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
        "": bytes,
    }
    sites = [s for s in twin.plan.sites if s.habits.encoding == encoding and s.habits.chunked == chunked]
    for site in sites[:3]:
        with Client(site.address, meadow.port) as client:
            client.send("/", "Accept-Encoding: gzip, br, zstd", "Connection: close")
            status, headers, body = client.receive()
        with Client(site.address, meadow.port) as client:
            plain = client.ask("/", "Connection: close")
        assert status == plain[0] == 200
        assert headers.get("content-encoding", "") == encoding
        assert "content-encoding" not in plain[1]
        assert unpack[encoding](body) == plain[2]
        assert plain[2].endswith(b"</html>\n")


def test_a_current_validator_gets_304(meadow, twin):
    site = _site(twin, validators=2, closing=False, chunked=False)
    with Client(site.address, meadow.port) as client:
        _, headers, _ = client.ask("/")
        status, same, body = client.ask("/", f"If-None-Match: {headers['etag']}")
        assert (status, body) == (304, b"")
        assert same["etag"] == headers["etag"]
        assert client.ask("/", f"If-Modified-Since: {headers['last-modified']}")[0] == 304
        assert client.ask("/", 'If-None-Match: W/"other"')[0] == 200
        assert client.ask("/", "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT")[0] == 200
        assert client.ask("/", "If-Modified-Since: yesterday")[0] == 200


def test_arrivals_tell_every_request_and_which_of_them_overlapped():
    options = {"hosts": 2, "pages": 200, "stalling": 1.0, **CALM}
    with running_meadow(**options) as running:
        first, second = (hostname_of(host_of(Url(seed))) for seed in running.seeds)
        silent = next(url for url, (status, _) in running.truth().items() if status == 0 and first in url)
        with Client(first, running.port) as one:
            # The second request is read together with the first, whose answer shows that it has been.
            one.socket.sendall(_get("/robots.txt") + _get(path_of(Url(silent))))
            one.receive()
            for address in (first, second):
                with Client(address, running.port) as two:
                    two.ask("/", "User-Agent: mouse")
        running.stop()
        arrivals = running.arrivals()
    assert [(a.address, a.path, a.busy, a.agent) for a in arrivals] == [
        (first, "/robots.txt", 0, ""),
        (first, path_of(Url(silent)), 0, ""),
        (first, "/", 1, "mouse"),
        (second, "/", 0, "mouse"),
    ]
    assert {a.host for a in arrivals} == {"x"}


def test_hosts_listen_only_on_their_network():
    with running_meadow(hosts=3, pages=30, listen="127.20.0.0/16", **CALM) as running:
        assert running.seeds[0] == f"http://127.20.1.1:{running.port}/"
        assert all("//127.20." in url for url in running.truth())
        with Client("127.20.1.2", running.port) as client:
            assert client.ask("/")[0] == 200
        with Client("127.0.1.2", running.port) as client, pytest.raises((ConnectionError, IndexError)):
            client.ask("/")


def test_a_distant_client_waits_longer():
    options = {"hosts": 4, "pages": 40, "places": 2, "near": 0.0, "far": 0.3, **CALM}
    sites = Meadow(MeadowOptions(**options)).plan.sites
    assert {site.place for site in sites} == {1, 2}
    with running_meadow(**options) as running:
        for source in ("127.9.0.1", "127.9.0.2"):
            for site in sites:
                with Client(site.address, running.port, source) as client:
                    started = time.monotonic()
                    assert client.ask("/robots.txt")[0] in (200, 404)
                    if source != f"127.9.0.{site.place}":
                        # A timer may fire a few milliseconds early.
                        assert time.monotonic() - started >= 0.25
        running.stop()
        arrivals = running.arrivals()
    seen = {(a.client, a.address) for a in arrivals}
    assert seen == {(f"127.9.0.{last}", site.address) for last in (1, 2) for site in sites}


_IN_A_NAMESPACE = r"""
import socket, sys
sys.path[:0] = {path}
from meadowland import running_meadow
with running_meadow(hosts=4, pages=40, listen="10.77.0.0/24", places=2, near=0, far=0) as running:
    with socket.create_connection(("10.77.0.3", running.port), 30, ("10.77.0.200", 0)) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        print(client.makefile("rb").readline().decode().strip())
    with socket.create_connection(("127.0.0.1", running.port), 30) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        try:
            print("nothing" if not client.recv(1) else "an answer")
        except ConnectionError:
            print("nothing")
    running.stop()
    print([(a.client, a.address) for a in running.arrivals()])
"""


def in_a_namespace(*setup: str) -> subprocess.CompletedProcess[str]:
    """The script above, where no network is but one that `setup` makes."""
    script = _IN_A_NAMESPACE.format(path=repr(sys.path))
    inside = " && ".join(["ip link set lo up", *setup, 'exec "$0" -c "$1"'])
    return subprocess.run(
        ["unshare", "--net", "sh", "-c", inside, sys.executable, script], capture_output=True, text=True
    )


@pytest.mark.skipif(
    subprocess.run(["sh", "-c", "unshare --net ip link show"], capture_output=True).returncode != 0,
    reason="namespaces need `ip` and the right to make them",
)
def test_hosts_live_on_addresses_that_a_namespace_has():
    found = in_a_namespace("ip route add local 10.77.0.0/24 dev lo")
    assert found.stdout.splitlines() == ["HTTP/1.1 200 OK", "nothing", "[('10.77.0.200', '10.77.0.3')]"], found.stderr
    lacking = in_a_namespace()
    assert "cannot listen on 10.77.0.1: Cannot assign requested address" in lacking.stderr


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def test_an_open_trap_is_infinite():
    meadow = Meadow(MeadowOptions(hosts=20, pages=400, robots=1.0, traps=1.0, open_traps=True, **CALM))
    host = host_of(meadow.seeds[0])
    path = "/calendar/month-0.html"
    assert path.encode() in meadow.respond(host, "/", 0.0).body
    for _ in range(100):
        answer = meadow.respond(host, path, 0.0)
        assert answer.status == 200
        path = answer.body.decode().partition('href="')[2].partition('"')[0]
    assert path == "/calendar/month-100.html"
    assert "calendar" not in meadow.respond(host, "/robots.txt", 0.0).body.decode()


def test_wget_can_crawl_the_meadow(meadow, twin, tmp_path):
    wget = subprocess.run(["which", "wget"], capture_output=True, text=True, check=False).stdout.strip()
    if not wget:
        pytest.skip("wget is not installed")
    site = twin.plan.sites[10]
    subprocess.run([wget, "-q", "-r", "-l", "inf", "-P", str(tmp_path), f"{site.origin}/"], check=False, timeout=60)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "robots.txt"]
    assert len(kept) >= site.linked


def _fetch_all(options: MeadowOptions, urls: list[Url]) -> list[tuple[float, Response | Failed]]:
    meadow = Meadow(options)

    async def main(clock):
        fetcher = MeadowFetcher(meadow, clock)
        start = clock.now()
        answers = []
        for url in urls:
            site = meadow.site_of_host(host_of(url))
            answer = await fetcher.fetch(Request(url), host_of(url), site.address if site else "")
            answers.append((clock.now() - start, answer))
        assert [a.path for a in fetcher.arrivals] == [path_of(url) for url in urls]
        await fetcher.close()
        return answers

    return virtual_time.run_in_virtual_time(main)


def test_the_in_process_fetcher_gives_the_same_responses_as_the_server(meadow, twin):
    urls = [fact.url for fact in twin.true_urls()][::40]
    answers = _fetch_all(MeadowOptions(hosts=200, pages=2000, port=meadow.port, **CALM), urls)
    for url, (_, answer) in zip(urls, answers, strict=True):
        assert isinstance(answer, Response)
        with Client(hostname_of(host_of(url)), meadow.port) as client:
            status, headers, body = client.ask(path_of(url), "Accept-Encoding: gzip, br, zstd", "Connection: close")
        assert answer.status == status
        assert answer.header("content-type") == headers["content-type"]
        assert answer.header("location") == headers.get("location", "")
        assert answer.header("content-encoding") == headers.get("content-encoding", "")
        assert answer.body == body


def test_the_in_process_fetcher_waits_in_virtual_time_and_times_out_on_stalls():
    options = MeadowOptions(hosts=1, pages=200, latency=5.0, stalling=1.0, **CALM)
    urls = [fact.url for fact in Meadow(options).true_urls() if fact.allowed]
    stalling = {fact.url for fact in Meadow(options).true_urls() if fact.status == 0}
    answers = _fetch_all(options, urls)
    assert stalling
    for url, (_, answer) in zip(urls, answers, strict=True):
        if url in stalling:
            assert isinstance(answer, Failed)
            assert answer.reason is OutcomeReason.TIMEOUT
    waited = answers[-1][0] - 20 * len(stalling)
    assert waited / (len(urls) - len(stalling)) == pytest.approx(5.0, rel=0.5)


def test_the_in_process_fetcher_adds_the_delay_of_distance():
    options = MeadowOptions(hosts=20, pages=200, places=3, near=0.5, far=7.0, **CALM)
    meadow = Meadow(options)

    async def main(clock):
        for last in (1, 2, 3, 4):
            fetcher = MeadowFetcher(meadow, clock, source=f"127.9.0.{last}")
            for site in meadow.plan.sites:
                url, start = Url(f"{site.origin}/"), clock.now()
                await fetcher.fetch(Request(url), host_of(url), site.address)
                way = 0.5 if site.place == (last - 1) % 3 + 1 else 7.0
                assert clock.now() - start == pytest.approx(way)
            assert {arrival.client for arrival in fetcher.arrivals} == {f"127.9.0.{last}"}

    virtual_time.run_in_virtual_time(main)


def test_a_slow_host_drips_its_pages():
    with running_meadow(hosts=1, pages=5, slow=1.0, slow_seconds=0.1, **CALM) as running:
        address = hostname_of(host_of(Url(running.seeds[0])))
        with Client(address, running.port) as client:
            client.send("/")
            client.send("/nowhere")
            status, _, body = client.receive()
            assert (status, body[-8:]) == (200, b"</html>\n")
            assert client.receive()[0] == 404


def test_a_client_that_disconnects_at_once_does_no_harm(capfd: pytest.CaptureFixture[str]) -> None:
    at_once = struct.pack("ii", 1, 0)
    with running_meadow(hosts=1, pages=1, **CALM) as meadow:
        address = hostname_of(host_of(Url(meadow.seeds[0])))
        for _ in range(300):
            with socket.create_connection((address, meadow.port)) as caller:
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        client = Client(address, meadow.port)
        client.send(path_of(Url(meadow.seeds[0])))
        assert client.receive()[0] == 200
        client.socket.close()
    assert not capfd.readouterr().err
