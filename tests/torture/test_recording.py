"""The kit's own test: a recording is complete, so the images made from it are true."""

from __future__ import annotations

from .recording import Disk, differences, read
from .scene import Scene, run
from .shim import Shim


def test_playing_a_recording_again_gives_the_directory_byte_for_byte(meadow_scene: Scene) -> None:
    room = meadow_scene.room("rebuild")
    home = room / "c"
    shim = Shim(home, room / "shim", record=True)
    assert run(meadow_scene.crawl_words(home), shim.environment()).code == 0
    disk = Disk()
    for operation in read(shim.traces):
        disk.play(operation)
    assert differences(disk, home) == []
    mapped = {name for name, file in disk.files().items() if file.mapped}
    assert mapped == {"archive/simhashes", "archive/digests.lmdb-lock"}, "these are beyond the recording"
