"""One server for all tests of boards: each begins with an empty one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from balancer.boards import MISSING, PROGRAM, MemoryWorld, RedisWorld, ServerProcess, World, a_server


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    if PROGRAM is None:
        pytest.skip(MISSING)
    with a_server() as process:
        yield process


@pytest.fixture(params=["memory", "redis"])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "memory":
        return MemoryWorld()
    return RedisWorld(request.getfixturevalue("server"))
