"""What a crawl that was refreshed under kills holds, beside what the web was at each moment.

The archive is read by `warcio` and by the lines of its CDXJ alone, as a replay would; the ledger is compared
with what the outcome log says, counted by hand; bursts are looked for where they are felt, in the
server's log.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from warcio.archiveiterator import ArchiveIterator

from fieldmouse.policy.polling import registry
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.reader.page import StoredPage
from fieldmouse.refresh.page_table import PageTable, read_page_table
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.outcome_log_reader import outcome_rows
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from search.searchable import searchable_urls

from .judging import Flaw, Verdict, bad
from .killing import keep
from .scene import run
from .upkeep import BUDGET, REVISION, ChangingScene, Shown, Upkeep, changing_scene, keep_up

BURST = 5 * BUDGET  # see docs/refresh.md
_TICK = 0.1  # seconds between two looks at what is due
_LATE = 5.0  # seconds that an answer may take on a machine that has other work


class Capture(NamedTuple):
    """One line of the CDXJ, and the record that it leads to."""

    url: str
    stamp: str  # of 14 digits
    status: str
    kind: str  # response or revisit
    place: tuple[str, int]  # file and offset
    digest: str  # of the payload
    body: bytes  # unpacked
    refers_to: tuple[str, str]  # URL and stamp, or empty

    @property
    def at(self) -> float:
        return datetime.strptime(self.stamp, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()


def kill_refreshes(scratch: Path, seed: int, wanted: int) -> tuple[Verdict, int]:
    """A crawl of a changing web, its refreshes killed `wanted` times; and how many kills fell."""
    verdict = Verdict(f"refreshes killed at random, seed {seed}")
    with changing_scene(scratch) as scene:
        kept = keep_up(scene, random.Random(seed), wanted, verdict)
        judge_upkeep(scene, kept, verdict)
        scene.meadow.stop()
        judge_bursts(scene, kept, verdict)
    keep(verdict, kept.home.parent)
    return verdict, kept.kills


def judge_upkeep(scene: ChangingScene, kept: Upkeep, verdict: Verdict) -> None:
    """Everything but bursts, for which the meadow must have stopped."""
    home = CrawlDir.open(kept.home)
    log = list(outcome_rows(home, length=sealed_outcome_bytes(read_checkpoint(home))))
    captures, atlas = read_archive(kept.home, verdict), CrawlReader(kept.home)
    pages = {str(row.url) for row in log if row.kind is OutcomeKind.PAGE}
    versions = {url: atlas.versions(url) for url in pages}
    _compare_index(scene, kept, versions, verdict)
    _compare_versions(scene, versions, captures, verdict)
    _compare_ledger(home, log, verdict)
    word = verdict.heard(run(["doctor", str(kept.home), "--deep"]))
    if word.code != 0:
        verdict.blame(Flaw.DOCTOR, f"exit {word.code} in the end: {bad(word)}")


# -- the archive, by its own index


def read_archive(home: Path, verdict: Verdict) -> list[Capture]:
    """What each line of `index.cdxj` leads to; every record of every file must have a line."""
    captures, archive, listed = list[Capture](), home / "archive", 0
    for line in (archive / "index.cdxj").read_text().splitlines():
        _, stamp, rest = line.split(" ", 2)
        said = json.loads(rest)
        with (archive / said["filename"]).open("rb") as file:
            file.seek(int(said["offset"]))
            record = next(iter(ArchiveIterator(file, check_digests="raise")))
            head = record.rec_headers
            body = record.content_stream().read() if record.rec_type == "response" else b""
            dated = "".join(filter(str.isdigit, head.get_header("WARC-Date")))
            if (head.get_header("WARC-Target-URI"), dated) != (said["url"], stamp):
                verdict.blame(Flaw.ARCHIVE, f"{line} leads to {head.get_header('WARC-Target-URI')} {dated}")
            refers = head.get_header("WARC-Refers-To-Target-URI"), head.get_header("WARC-Refers-To-Date")
            refers_to = (refers[0] or "", "".join(filter(str.isdigit, refers[1] or "")))
            digest = head.get_header("WARC-Payload-Digest")
        captures.append(
            Capture(
                said["url"],
                stamp,
                said.get("status", ""),
                record.rec_type,
                (said["filename"], int(said["offset"])),
                digest,
                body,
                refers_to,
            )
        )
    for path in sorted(archive.glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                listed += record.rec_type in ("response", "revisit")
                record.content_stream().read()
    if listed != len(captures):
        verdict.blame(Flaw.ARCHIVE, f"{listed} answers in WARC files, {len(captures)} lines of CDXJ")
    return captures


def _compare_versions(
    scene: ChangingScene, versions: dict[str, list[StoredPage]], captures: list[Capture], verdict: Verdict
) -> None:
    """Every page in the archive is what the server had then; what Python calls versions is what is there."""
    by_place = {(capture.url, capture.stamp): capture for capture in captures}
    by_url = defaultdict[str, list[Capture]](list)
    for capture in captures:
        by_url[capture.url].append(capture)
    for url, known in versions.items():
        shown: list[Capture] = []
        for capture in sorted(by_url[url], key=lambda capture: capture.stamp):
            if capture.status == "200" and capture.kind == "revisit":
                whole = by_place.get(capture.refers_to)
                if whole is None or whole.kind != "response" or whole.digest != capture.digest:
                    verdict.blame(Flaw.ARCHIVE, f"{capture[:5]} refers to nothing: {capture.refers_to}")
                    continue
                capture = capture._replace(body=whole.body)
            if capture.status == "200":
                _check_truth(scene, capture, verdict)
                if not shown or shown[-1].digest != capture.digest:
                    shown.append(capture)
            elif capture.status == "304" and (not shown or shown[-1].digest != capture.digest):
                verdict.blame(Flaw.ARCHIVE, f"{url} at {capture.stamp}: 304 to a copy that is not there")
        told = [(version.row.warc, version.row.offset) for version in known]
        if told != [capture.place for capture in shown]:
            verdict.blame(Flaw.ARCHIVE, f"{url}: versions {told}, archive {[one[:5] for one in shown]}")
        for version, capture in zip(known, shown, strict=False):
            if version.body != capture.body or not 0 <= version.row.at - capture.at < _LATE:
                verdict.blame(Flaw.UNREADABLE, f"{url} of {capture.stamp} is another in Python")


def _check_truth(scene: ChangingScene, capture: Capture, verdict: Verdict) -> None:
    found = REVISION.search(capture.body)
    if found is None:
        return  # a sitemap
    said = Shown(200, int(found[1]))
    if said not in scene.over(capture.url, capture.at, capture.at + _LATE):
        verdict.blame(Flaw.ARCHIVE, f"{capture.url} at {capture.stamp} was not revision {said.revision}")


# -- the index


def _compare_index(scene: ChangingScene, kept: Upkeep, versions: dict[str, list[StoredPage]], verdict: Verdict) -> None:
    """Each page once, in the version of the last round; nothing that was gone by then."""
    held = Counter(searchable_urls(kept.home))
    twice = [url for url, count in held.items() if count > 1]
    if twice:
        verdict.blame(Flaw.DUPLICATE, f"{twice[:3]}", len(twice))
    room, steady = CrawlReader(kept.home), 0
    for url in known_urls(scene, kept):
        seen = scene.over(url, kept.last_round[0] - 1.0, kept.last_round[1])
        if len(seen) > 1:
            continue  # it changed in those seconds: either would be right
        steady += 1
        (shown,) = seen
        if (shown.status == 200) != (held[url] == 1):
            verdict.blame(Flaw.UNREADABLE, f"{url}, {shown}: {held[url]} times in the index")
        elif shown.revision is not None:
            hits = {hit.url for hit in room.search(f'"Revision {shown.revision}"', limit=1000)}
            if url not in hits:
                verdict.blame(Flaw.UNREADABLE, f"{url}: revision {shown.revision} is not in the index")
            for version in versions.get(url, [])[:-1]:
                found = REVISION.search(version.body)
                if found and int(found[1]) != shown.revision:
                    old = {hit.url for hit in room.search(f'"Revision {int(found[1])}"', limit=1000)}
                    if url in old:
                        verdict.blame(Flaw.DUPLICATE, f"{url}: revision {int(found[1])} is still in the index")
    if held.keys() - versions.keys():
        verdict.blame(Flaw.DUPLICATE, f"never stored: {sorted(held.keys() - versions.keys())[:3]}")
    verdict.notes.append(f"{steady} pages stood still in the last round, {len(held)} are in the index")


def known_urls(scene: ChangingScene, kept: Upkeep) -> set[str]:
    """Every URL that a crawler could know by the beginning of the last round, as far as it may ask for it."""
    begun = scene.meadow.allowed()
    changes = [json.loads(line) for line in scene.changes.read_text().splitlines()]
    came = {
        change["url"] for change in changes if change.get("kind") == "new" and change["t"] < kept.last_round[0] - 1.0
    }
    return begun | came


# -- what was learned


def _compare_ledger(home: CrawlDir, log: list[OutcomeRow], verdict: Verdict) -> None:
    last = read_checkpoint(home)
    assert last is not None
    kept = read_page_table(home, last)
    polls, tried = Counter[str](), dict[str, float]()
    for row in log:
        polls[row.url] += bool(row.polled)
        tried[row.url] = row.at
    for number, row in kept.current_outcomes():
        known = int(kept.column("polls")[number]), float(kept.column("tried")[number])
        if known != (polls[row.url], tried[row.url]):
            verdict.blame(Flaw.LOST, f"{row.url}: ledger {known}, log {(polls[row.url], tried[row.url])}")
    for name, column in _refolded(home, kept).items():
        if not np.array_equal(column, _by_key(kept, name)):
            verdict.blame(Flaw.LOST, f"the ledger's `{name}` is not what the log teaches")
    kept.close()


def _refolded(home: CrawlDir, kept: PageTable) -> dict[str, npt.NDArray[Any]]:
    """The columns of a ledger that is made of the whole log anew, as if there had been none."""
    policy = registry.create_policy("learned")
    anew = PageTable(home, None, policy=policy, named="learned", read_only=True)
    anew.catch_up(kept.cursor)
    columns = {name: _by_key(anew, name) for name in ("looked", "changed", "changes", "belief", "state")}
    anew.close()
    return columns


def _by_key(ledger: PageTable, name: str) -> npt.NDArray[Any]:
    return ledger.column(name)[np.argsort(ledger.column("key"))]


# -- bursts


def judge_bursts(scene: ChangingScene, kept: Upkeep, verdict: Verdict) -> None:
    """Polls by the server's log, in any stretch of time; call it when the meadow has stopped.

    Who comes back after a kill has nothing to spend but what comes in from then on, beside the polls that
    were under way, which are made again.
    """
    times, lives = polls_felt(scene, kept), kept.lives
    for number, life in enumerate(lives):
        mine = times[(times > life.began) & (times < life.ended)]
        most = BUDGET * (mine - life.began + _TICK) + life.under_way
        burst = (np.arange(1, len(mine) + 1) - most).max(initial=0.0)
        if number and burst >= 1.0:
            verdict.blame(Flaw.GAP, f"{burst:.1f} polls too many in life {number}: {life}")
    excess = 0.0
    for index, begin in enumerate(times):
        over = np.arange(1, len(times) - index + 1) - BUDGET * (times[index:] - begin)
        excess = max(excess, float(over.max()))
    seconds = lives[-1].ended - lives[0].began
    verdict.notes.append(
        f"{len(times)} polls in {seconds:.0f} s, {kept.kills} kills; most above {BUDGET:g}/s: {excess:.1f}"
    )
    if excess > BURST + max(life.under_way for life in lives):
        verdict.blame(Flaw.GAP, f"{excess:.0f} polls above the budget")
    if len(times) < len(lives):
        verdict.blame(Flaw.STUCK, f"only {len(times)} polls in {len(lives)} lives")


def polls_felt(scene: ChangingScene, kept: Upkeep) -> npt.NDArray[np.float64]:
    """When the server was asked for a URL whose outcome was known, until the last kill."""
    home = CrawlDir.open(kept.home)
    first: dict[str, float] = {}
    for row in outcome_rows(home, length=sealed_outcome_bytes(read_checkpoint(home))):
        first.setdefault(row.url, row.at)
    return np.array(
        [
            arrival.t
            for arrival in scene.arrivals(kept.home)
            if kept.lives[0].began < arrival.t < kept.lives[-1].ended
            and arrival.t > first.get(f"http://{arrival.host}{arrival.path}", np.inf)
        ]
    )
