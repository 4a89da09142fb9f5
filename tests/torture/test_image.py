"""After a power cut a crawl goes on from what was synced, whatever else the disk shows."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .image import Image, Kind, build, choose, revive
from .killing import record
from .recording import Act, Operation
from .scene import Scene


def _written(number: int, act: Act, path: str, *, inode: int = 0, at: int = 0, data: bytes = b"") -> Operation:
    return Operation(number, act, inode, at, path, "", data)


def test_an_image_guarantees_only_synced_data(tmp_path: Path) -> None:
    """A file synced in a directory that was not is a file without a name."""
    operations = [
        _written(1, Act.CREATE, "safe", inode=1),
        _written(2, Act.WRITE, "safe", inode=1, data=b"synced"),
        _written(3, Act.SYNC, "safe", inode=1),
        _written(4, Act.SYNC, "", at=1),
        _written(5, Act.WRITE, "safe", inode=1, at=6, data=b" and more"),
        _written(6, Act.CREATE, "nameless", inode=2),
        _written(7, Act.WRITE, "nameless", inode=2, data=b"synced too"),
        _written(8, Act.SYNC, "nameless", inode=2),
    ]
    shown = {}
    for kind in Kind:
        build(operations, Image(len(operations), kind, 1), tmp_path / kind.name)
        shown[kind] = {path.name: path.read_bytes() for path in (tmp_path / kind.name).iterdir()}
        assert shown[kind]["safe"].startswith(b"synced")
    assert shown[Kind.SYNCED] == {"safe": b"synced"}
    assert shown[Kind.DATA] == {"safe": b"synced and more"}
    assert shown[Kind.NAMES] == {"safe": b"synced", "nameless": b"synced too"}
    assert shown[Kind.HOLES] == {"safe": b"synced" + bytes(9), "nameless": b"synced too"}
    assert shown[Kind.ALL] == {"safe": b"synced and more", "nameless": b"synced too"}


def test_a_power_cut_loses_nothing(meadow_scene: Scene) -> None:
    operations = record(meadow_scene)
    images = choose(operations, 4, random.Random(4))
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(lambda image: revive(meadow_scene, operations, image), images))
    assert [verdict for verdict in judged if verdict.flaws] == []
