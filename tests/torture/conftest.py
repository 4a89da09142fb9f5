"""One small web for all tests of the kit, and its crawl on record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .scene import Scene, scene
from .shim import NoShim, library


@pytest.fixture(scope="session")
def meadow_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    try:
        library()
    except NoShim as trouble:
        pytest.skip(str(trouble))
    with scene(tmp_path_factory.mktemp("torture")) as made:
        yield made
