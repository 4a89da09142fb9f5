"""Two servers for all tests of coordinators: each test starts with empty ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.coordinators import MISSING, PROGRAM, MemoryWorld, RedisWorld, ServerProcess, SpreadWorld, World, a_server


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    if PROGRAM is None:
        pytest.skip(MISSING)
    with a_server() as process:
        yield process


@pytest.fixture(scope="session")
def other_server(server: ServerProcess) -> Iterator[ServerProcess]:
    with a_server() as process:
        yield process


@pytest.fixture(params=["memory", "redis", "two in memory", "two servers"])
def world(request: pytest.FixtureRequest) -> World:
    match request.param:
        case "memory":
            return MemoryWorld()
        case "redis":
            return RedisWorld(request.getfixturevalue("server"))
        case "two in memory":
            return SpreadWorld(MemoryWorld(), MemoryWorld())
        case _:
            servers = (request.getfixturevalue(name) for name in ("server", "other_server"))
            return SpreadWorld(*map(RedisWorld, servers))
