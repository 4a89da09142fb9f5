"""What a disk may show after a power cut.

Strict POSIX: data is safe once its file was synced, a name once its directory was;
everything else may be there or not. Data written since may be there as whole writes,
as some of their blocks, or as zeros where the size was noted and the data not. Each
change of a name since may have happened or not, a rename within one directory as a
whole. What real file systems promise on top of that is not made use of.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .judging import Flaw, Verdict, bad, judge
from .recording import BLOCK, Act, Disk, File, Folder, Operation, apply, named
from .scene import Scene, run


class Kind(StrEnum):
    """How much of what was not synced survived."""

    SYNCED = "nothing but what was synced"
    ALL = "everything"
    NAMES = "names without data"
    HOLES = "names, and zeros for data"
    DATA = "data without names"
    ORDERED = "the first of the changes"
    TORN = "any of the changes, torn"


@dataclass(frozen=True)
class Image:
    """One state of the disk: after so many operations, of this kind; `seed` decides what it leaves open."""

    cut: int
    kind: Kind
    seed: int

    def __str__(self) -> str:
        return f"image after operation {self.cut}, {self.kind.value} (seed {self.seed})"


def build(operations: Sequence[Operation], image: Image, target: Path) -> None:
    """Write the image to `target`, which must not exist."""
    disk = Disk()
    for operation in operations[: image.cut]:
        disk.play(operation)
    _write(disk.root, target, image.kind, random.Random(f"{image}"))


def _write(folder: Folder, target: Path, kind: Kind, rng: random.Random) -> None:
    target.mkdir()
    for name, node in sorted(_names(folder, kind, rng).items()):
        if isinstance(node, Folder):
            _write(node, target / name, kind, rng)
            continue
        content = _content(node, kind, rng)
        with (target / name).open("wb") as file:
            if any(content):
                file.write(content)
            else:
                file.truncate(len(content))  # the table of simhashes is large and mostly empty


def _names(folder: Folder, kind: Kind, rng: random.Random) -> dict[str, File | Folder]:
    match kind:
        case Kind.SYNCED | Kind.DATA:
            return folder.synced
        case Kind.ALL | Kind.NAMES | Kind.HOLES:
            return folder.now()
        case Kind.ORDERED:
            return named(folder.synced, folder.since[: rng.randint(0, len(folder.since))])
        case Kind.TORN:
            return named(folder.synced, [change for change in folder.since if rng.random() < 0.5])


def _content(file: File, kind: Kind, rng: random.Random) -> bytearray:
    content = bytearray(file.synced)
    match kind:
        case Kind.SYNCED | Kind.NAMES:
            return content
        case Kind.ALL | Kind.DATA:
            return file.now()
        case Kind.HOLES:
            apply(content, [(len(file.now()), None)])
        case Kind.ORDERED:
            kept = file.since[: rng.randint(0, len(file.since))]
            apply(content, kept)
            if len(kept) < len(file.since):
                apply(content, _torn(file.since[len(kept)], rng))
        case Kind.TORN:
            for change in file.since:
                fate = rng.random()
                if fate < 0.4:
                    apply(content, [change])
                elif fate < 0.6:
                    apply(content, _torn(change, rng))
                elif fate < 0.7 and change[1] is not None:
                    apply(content, [(max(len(content), change[0] + len(change[1])), None)])
    return content


def _torn(change: tuple[int, bytes | None], rng: random.Random) -> list[tuple[int, bytes | None]]:
    """Some blocks of a write."""
    at, data = change
    if data is None:
        return []
    kept: list[tuple[int, bytes | None]] = []
    start = 0
    while start < len(data):
        end = min(len(data), start + BLOCK - (at + start) % BLOCK)
        if rng.random() < 0.5:
            kept.append((at + start, data[start:end]))
        start = end
    return kept


def choose(operations: Sequence[Operation], wanted: int, rng: random.Random) -> list[Image]:
    """Images at moments spread over the whole recording, most of them just before something is synced."""
    first = sum(operation.sequence < 0 for operation in operations)
    safe = (Act.SYNC, Act.RENAME)
    before = [at for at, each in enumerate(operations) if each.act in safe and at >= first]
    kinds = list(Kind)
    images: list[Image] = []
    rounds = -(-wanted // len(kinds))
    for number in range(rounds):
        # One cut from each stretch of the recording, so that its quiet end does not fill the list.
        low, high = number * len(before) // rounds, (number + 1) * len(before) // rounds
        cut = rng.choice(before[low:high] or before)
        if rng.random() < 0.2:
            cut = rng.randrange(first, len(operations))
        images += [Image(cut, kind, rng.getrandbits(32)) for kind in kinds]
    rng.shuffle(images)
    return images[:wanted]


def revive(scene: Scene, operations: Sequence[Operation], image: Image) -> Verdict:
    """Build the image, look it over, resume it, and judge what comes of it."""
    verdict = Verdict(str(image))
    room = scene.room("image")
    home = room / "c"
    build(operations, image, home)
    word = verdict.heard(run(["doctor", str(home)]))
    if not (home / "crawl.json").exists() and word.code == 0:
        verdict.blame(Flaw.DOCTOR, "healthy, and there is no crawl")
    judge(scene, home, verdict, run(scene.words(home)))
    if word.code == 0 and verdict.flaws:
        verdict.blame(Flaw.DOCTOR, "healthy, it said before")
    elif word.code != 0 and (home / "crawl.json").exists() and not verdict.flaws:
        verdict.alarms += 1
        verdict.notes.append(f"before: {bad(word)}")
    if verdict.flaws:
        build(operations, image, room / "image")
        (room / "verdict.txt").write_text("\n".join([verdict.case, *verdict.notes]))
    else:
        shutil.rmtree(room)
    return verdict
