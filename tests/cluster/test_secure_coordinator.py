"""Coordinator with TLS, a password and a database number, all in its URL."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
import trustme

from cluster.coordinators import MISSING, PROGRAM, a_server
from common_name import issue_by_common_name
from fieldmouse.cluster.coordinator import CrawlSpec
from fieldmouse.cluster.redis.coordinator import RedisCoordinator
from fieldmouse.errors import CoordinatorError, CoordinatorUnreachable, UsageError

CHARTER = CrawlSpec(1, "", ())


@dataclass(frozen=True)
class SecureServer:
    port: int
    authority: Path
    stranger: Path  # another authority
    client: redis.Redis

    def url(self, place: str = "127.0.0.1", database: str = "3", **options: object) -> str:
        said = "&".join(f"{name}={value}" for name, value in options.items())
        return f"rediss://:secret@{place}:{self.port}/{database}{'?' if said else ''}{said}"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    if PROGRAM is None:
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("tls")
    authority, stranger = trustme.CA(), trustme.CA()
    papers = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    stranger.cert_pem.write_to_path(str(folder / "stranger.pem"))
    papers.private_key_pem.write_to_path(str(folder / "key.pem"))
    papers.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    files = {"cert-file": "cert.pem", "key-file": "key.pem", "ca-cert-file": "ca.pem"}
    words = f"--tls-port {port} --bind 127.0.0.1 --tls-auth-clients no --requirepass secret".split()
    words += [word for name, file in files.items() for word in (f"--tls-{name}", str(folder / file))]
    linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True).stdout
    if "libssl" not in linked:
        pytest.skip(f"{PROGRAM} was built without TLS")
    with ExitStack() as stack:
        server = stack.enter_context(a_server(*words, password="secret"))
        yield SecureServer(port, folder / "ca.pem", folder / "stranger.pem", server.client())


def test_a_certificate_that_names_its_host_only_in_its_common_name_is_refused(tmp_path: Path) -> None:
    """A server that accepts any connection will do: the handshake fails before it says anything."""
    authority_pem, certificate = issue_by_common_name("localhost")
    (tmp_path / "ca.pem").write_bytes(authority_pem)
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(theirs)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async def ask() -> None:
        listening = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=theirs)
        port = listening.sockets[0].getsockname()[1]
        board = RedisCoordinator(f"rediss://localhost:{port}/0?ssl_ca_certs={tmp_path / 'ca.pem'}")
        try:
            await board.create_crawl(CHARTER)
        finally:
            await board.close()
            listening.close()

    with pytest.raises(CoordinatorError, match="is not trusted") as caught:
        asyncio.run(ask())
    assert "subjectAltName" in str(caught.value)


def asked(url: str) -> CrawlSpec:
    async def ask() -> CrawlSpec:
        board = RedisCoordinator(url)
        try:
            return await board.create_crawl(CHARTER)
        finally:
            await board.close()

    return asyncio.run(ask())


def test_the_coordinator_uses_tls_password_and_database_of_its_url(secure: SecureServer) -> None:
    secure.client.flushall()
    assert asked(secure.url(ssl_ca_certs=secure.authority)) == CHARTER
    assert list(secure.client.info("keyspace")) == ["db3"]


def test_an_untrusted_certificate_is_refused_at_once(secure: SecureServer) -> None:
    for url in (
        secure.url(),
        secure.url(ssl_ca_certs=secure.stranger),
        secure.url("localhost", ssl_ca_certs=secure.authority),  # it is only for the address
    ):
        with pytest.raises(CoordinatorError, match="is not trusted") as caught:
            asked(url)
        assert not isinstance(caught.value, CoordinatorUnreachable), "waiting would not help"
        assert "secret" not in f"{caught.value} {caught.value.hint}"


def test_errors_in_the_url_are_named(secure: SecureServer, tmp_path: Path) -> None:
    with pytest.raises(CoordinatorError, match="does not exist"):
        asked(secure.url(ssl_ca_certs=tmp_path / "nothing.pem"))
    with pytest.raises(CoordinatorError, match="does not have the database number"):
        asked(secure.url(database="99", ssl_ca_certs=secure.authority))
    with pytest.raises(UsageError, match="no coordinator"):
        asked(secure.url(database="three"))
    with pytest.raises(UsageError, match="`ca` is no option"):
        asked(secure.url(ca=secure.authority))
    with pytest.raises(CoordinatorError, match="password"):
        asked(secure.url(ssl_ca_certs=secure.authority).replace("secret", "wrong"))
