"""One small crawl, made once, for all tests that only read."""

from __future__ import annotations

from pathlib import Path

import pytest

from whole.virtual_time import bottled_crawl

from .smallweb import HOME, SmallWeb

QUICK: dict[str, object] = {"network__allow_private": True, "politeness__delay": "0s"}


@pytest.fixture(scope="session")
def small_crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "c"
    summary, _ = bottled_crawl(path, SmallWeb, [HOME + "/"], **QUICK)
    assert summary.waiting == summary.lost == 0
    return path
