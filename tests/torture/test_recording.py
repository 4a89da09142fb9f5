"""The kit's own test: a recording is complete, so the images made from it are true."""

from __future__ import annotations

from pathlib import Path

from .recording import Disk, differences, read, standing
from .scene import Scene, run
from .shim import Shim


def played(scene: Scene) -> tuple[Disk, Path]:
    """The disk as it is recorded, and as it is."""
    room = scene.room("rebuild")
    home = room / "c"
    shim = Shim(home, room / "shim", record=True)
    words = scene.words(home)
    disk = Disk()
    for operation in standing(home):
        disk.play(operation)
    assert run(words, shim.environment()).code == 0
    for operation in read(shim.traces):
        disk.play(operation)
    return disk, home


def test_playing_the_recording_of_a_refresh_again_gives_the_directory_byte_for_byte(lively_scene: Scene) -> None:
    disk, home = played(lively_scene)
    assert differences(disk, home) == []
    assert (home / "ledger" / "pages-1.columns").exists(), "the ledger is written anew"


def test_playing_a_recording_again_gives_the_directory_byte_for_byte(meadow_scene: Scene) -> None:
    disk, home = played(meadow_scene)
    assert differences(disk, home) == []
    mapped = {name for name, file in disk.files().items() if file.mapped}
    assert mapped == {"archive/simhashes", "archive/digests.lmdb-lock"}, "these are beyond the recording"
