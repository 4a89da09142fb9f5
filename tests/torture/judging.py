"""What a crawl holds in the end, beside the truth: every way to be wrong is counted under its own name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

from fieldmouse.archive.warc_writer import parse_cdxj_line

from .scene import Said, Scene, indexed, run


class Flaw(StrEnum):
    """Each must be zero."""

    LOST = "URLs lost"
    UNREADABLE = "unreadable or not in the index"
    GIVEN_UP = "given up for our faults"
    DUPLICATE = "duplicates in the index"
    ARCHIVE = "invalid archives"
    GAP = "politeness gaps"
    TRACEBACK = "tracebacks"
    DOCTOR = "doctor wrong"
    STUCK = "stuck or refused"


@dataclass
class Verdict:
    """What came of one case."""

    case: str
    flaws: Counter[Flaw] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    alarms: int = 0  # doctor reported something that a resume mended

    def blame(self, flaw: Flaw, note: str, count: int = 1) -> None:
        self.flaws[flaw] += count
        self.notes.append(f"{flaw.value}: {note}")

    def heard(self, said: Said) -> Said:
        if said.traceback:
            self.blame(Flaw.TRACEBACK, said.talk[-1500:])
        return said


def judge(scene: Scene, home: Path, verdict: Verdict, last: Said) -> None:
    """`last` is what the run said that should have brought the crawl to its end."""
    verdict.heard(last)
    if last.code != 0:
        verdict.blame(Flaw.STUCK, f"exit {last.code}: {last.told} {last.talk[-600:]}")
        return
    told = last.told or {}
    if told.get("lost") or told.get("waiting"):
        verdict.blame(Flaw.LOST, f"lost {told.get('lost')}, waiting {told.get('waiting')}")
    for look in (_compare, _look_at_index, _look_at_archive):
        try:
            look(scene, home, verdict)
        except Exception as trouble:  # whatever cannot be read is not there
            verdict.blame(Flaw.UNREADABLE, f"{look.__name__}: {type(trouble).__name__}: {trouble}")
    word = verdict.heard(run(["doctor", str(home)]))
    if word.code != 0:
        verdict.blame(Flaw.DOCTOR, f"exit {word.code} in the end: {bad(word)}")


def bad(word: Said) -> str:
    """What doctor complains about."""
    if isinstance(word.told, dict) and "findings" in word.told:
        wrong = [finding for finding in word.told["findings"] if not finding["healthy"]]
        return "; ".join(f"{finding['what']}: {finding['says']}" for finding in wrong)
    return f"{word.told} {word.talk[-400:]}"


def _compare(scene: Scene, home: Path, verdict: Verdict) -> None:
    held = scene.outcomes(home)
    missing = scene.truth.keys() - held.keys()
    if missing:
        verdict.blame(Flaw.LOST, f"{sorted(missing)[:3]}", len(missing))
    extra = held.keys() - scene.truth.keys()
    if extra:
        verdict.blame(Flaw.LOST, f"never seen otherwise: {sorted(extra)[:3]}", len(extra))
    for url in held.keys() & scene.truth.keys():
        if held[url] != scene.truth[url]:
            verdict.blame(Flaw.GIVEN_UP, f"{url}: {held[url]} instead of {scene.truth[url]}")


def _look_at_index(scene: Scene, home: Path, verdict: Verdict) -> None:
    held = Counter(indexed(home))
    twice = [url for url, count in held.items() if count > 1]
    if twice:
        verdict.blame(Flaw.DUPLICATE, f"{twice[:3]}", len(twice))
    missing = scene.indexed - held.keys()
    if missing:
        verdict.blame(Flaw.UNREADABLE, f"not in the index: {sorted(missing)[:3]}", len(missing))
    extra = held.keys() - scene.indexed
    if extra:
        verdict.blame(Flaw.DUPLICATE, f"in the index, but no page: {sorted(extra)[:3]}", len(extra))


def _look_at_archive(scene: Scene, home: Path, verdict: Verdict) -> None:
    """What `warcio check` does, and that every page of the truth has its record."""
    stored = set()
    for path in sorted((home / "archive").glob("*.warc.gz")):
        try:
            with path.open("rb") as file:
                for record in ArchiveIterator(file, check_digests="raise"):
                    record.content_stream().read()
                    record.raw_stream.read()
                    if record.rec_type in ("response", "revisit"):
                        stored.add(record.rec_headers.get_header("WARC-Target-URI"))
        except Exception as trouble:  # whatever warcio stumbles over, the archive is not what it should be
            verdict.blame(Flaw.ARCHIVE, f"{path.name}: {type(trouble).__name__}: {str(trouble)[:100]!r}")
    pages = {url for url, row in scene.truth.items() if row[0] == "page"}
    if pages - stored:
        verdict.blame(Flaw.ARCHIVE, f"not in the archive: {sorted(pages - stored)[:3]}", len(pages - stored))
    lines = (home / "archive" / "index.cdxj").read_bytes().splitlines()
    listed = {parse_cdxj_line(line)[1].url for line in lines}
    if pages - listed or lines != sorted(lines):
        verdict.blame(Flaw.UNREADABLE, f"not in index.cdxj, or not sorted: {sorted(pages - listed)[:3]}")
