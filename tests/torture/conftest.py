"""Two small webs for all tests of the kit: one that is crawled, and one that is refreshed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .refreshed import refreshed_scene
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


@pytest.fixture(scope="session")
def lively_scene(meadow_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with refreshed_scene(tmp_path_factory.mktemp("lively")) as made:
        yield made
