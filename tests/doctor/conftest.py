"""Two small crawls, one finished and one killed, made once and copied by tests that damage them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from whole.virtual_time import bottled_crawl, bottled_kill

from .damaging import CRAWL, MEADOW, web


@pytest.fixture(scope="session")
def finished_crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("finished") / "c"
    summary, _ = bottled_crawl(path, web, MEADOW.seeds, **CRAWL)
    assert summary.waiting == 0
    return path


@pytest.fixture(scope="session")
def killed_crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Killed with waiting URLs in every kind of file, and half-written pages after the last checkpoint."""
    path = tmp_path_factory.mktemp("killed") / "c"
    summary, _ = bottled_kill(path, web, MEADOW.seeds, after=25.0, **CRAWL)
    assert summary is None
    (path / "lock").write_text("1")
    for kind in ("hosts", "front", "queues", "keys", "links", "ready"):
        assert any(log.stat().st_size for log in (path / "frontier").glob(f"{kind}-*")), kind
    return path


@pytest.fixture(params=["finished", "killed"])
def crawl(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A private copy of a crawl, to be damaged."""
    return Path(shutil.copytree(request.getfixturevalue(f"{request.param}_crawl"), tmp_path / "c"))
