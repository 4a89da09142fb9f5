"""Shard: archives, parses and indexes responses, and keeps its files consistent.

A shard is locked and verified before anything in it is changed. Every response is archived. A 2xx page is also
parsed and added to the full-text index unless it forbids indexing; a sitemap is read for its URLs; a redirect
becomes a link. All files of a shard move together from one saved state to the next: `prepare` makes them durable and
returns the new state.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import msgspec

from fieldmouse.archive import dedup, warc_writer
from fieldmouse.archive.dedup import Doubles, payload_digest, reach, sketch, written
from fieldmouse.archive.record_reader import HeldCopies
from fieldmouse.archive.warc_writer import WORTH_A_REVISIT, Archive
from fieldmouse.config.worker_config import IndexerConfig
from fieldmouse.diff.verdict import UNHEARD, Judge, Judgement, of_answer, sight, sight_again
from fieldmouse.errors import FieldmouseError, storing
from fieldmouse.parse.content import mime_of, read_contents
from fieldmouse.parse.html import Rules, read_robots_tag
from fieldmouse.parse.links import Links
from fieldmouse.plugins.rows import Rows
from fieldmouse.plugins.runner import Complaint, Onlooker
from fieldmouse.search import index
from fieldmouse.search.index import TextIndex
from fieldmouse.search.replacements import Turnover
from fieldmouse.search.versions import verify_log
from fieldmouse.storage.fsync import sync_directory
from fieldmouse.storage.shard_state import ShardState
from fieldmouse.types.outcome import GONE, Failed, Moved, OutcomeRow, Page, Parsed, Response, Unchanged
from fieldmouse.types.reason import OutcomeKind, Reason
from fieldmouse.types.request import Door, Kind, Link
from fieldmouse.url import Url, key_of
from fieldmouse.workers.plugins import Guests

STORES = (lmdb.Error, ValueError)
"""Errors that lmdb and tantivy raise when the disk fails."""


class HeldShard:
    """A locked and verified shard. Nothing in it has been changed yet."""

    def __init__(
        self,
        directory: Path,
        number: int,
        config: IndexerConfig,
        state: ShardState,
        onlooker: Onlooker | None = None,
    ):
        """Raises `Damaged` if the shard cannot be restored to `state`, and `FieldmouseError` if a plug-in
        cannot be loaded."""
        self.guests = Guests(config.plugins, onlooker)
        with storing(directory):
            for folder in (directory / "archive", directory / "index"):
                folder.mkdir(parents=True, exist_ok=True)
            self.lock = os.open(directory / "index" / f"shard-{number}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with storing(directory, *STORES):
                # The previous worker may still be exiting; two must not write at once.
                fcntl.flock(self.lock, fcntl.LOCK_EX)
                warc_writer.verify(directory / "archive", number, state)
                index.verify(directory / "index", number, state)
                verify_log(directory / "index", number, state.copies)
                if state.batch:
                    dedup.verify(directory / "archive")
        except FieldmouseError:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.lock)


_OF_THE_REQUEST = ("depth", "via", "seen_at", "tries")


def row_of(
    link: Link, kind: OutcomeKind, at: float, judgement: Judgement = UNHEARD, **columns: Any
) -> OutcomeRow:
    """Build a row from a request and the verdict of a poll; `columns` are those of the response."""
    columns |= {name: getattr(link, name) for name in _OF_THE_REQUEST} | judgement._asdict()
    return OutcomeRow(link.url, kind, at, found_as=link.kind.value, polled=link.was, **columns)


class Meaning(NamedTuple):
    """Values for the row in the outcome log."""

    kind: OutcomeKind
    reason: Reason = Reason.NONE
    detail: str = ""
    target: str = ""
    leaves: bool = False  # the indexed version must be removed from search
    unlisted: bool = False
    gone: bool = False


def meaning_of(outcome: Page | Unchanged | Moved | Failed, config: IndexerConfig) -> Meaning:
    """Interpret every outcome except a page to be read. Only a re-crawled URL has an indexed version."""
    link = outcome.link
    if isinstance(outcome, Failed):
        gone = outcome.response is not None and outcome.response.status in GONE
        excluded = outcome.reason is Reason.EXCLUDED
        kind = OutcomeKind.REFUSED if excluded else OutcomeKind.FAILED
        leaves = link.again and (gone or excluded)
        return Meaning(kind, outcome.reason, outcome.detail, leaves=leaves, gone=gone)
    if isinstance(outcome, Moved):
        return Meaning(OutcomeKind.MOVED, target=outcome.target, leaves=outcome.for_good)
    if isinstance(outcome, Unchanged):
        return unchanged(outcome.response, config, polled=bool(link.was))
    return Meaning(OutcomeKind.PAGE)


def unchanged(response: Response, config: IndexerConfig, *, polled: bool) -> Meaning:
    """Interpret an unchanged page; its headers may forbid indexing now."""
    rules = Rules()
    for name, value in response.headers:
        if name == "x-robots-tag":
            read_robots_tag(value, rules, config.robot)
    unlisted = polled and rules.noindex and config.nofollow
    return Meaning(OutcomeKind.UNCHANGED, leaves=unlisted, unlisted=unlisted)


_encode = msgspec.msgpack.Encoder().encode


class OpenShard:
    """A locked and checked shard; nothing in it has been changed yet."""

    def __init__(
        self,
        directory: Path,
        number: int,
        config: IndexerConfig,
        state: ShardState,
        onlooker: Onlooker | None = None,
        batch: int = 0,
    ):
        """Raises `Damaged` if the shard cannot be restored to `state`, and the plug-in's error if one cannot
        be loaded."""
        held = HeldShard(directory, number, config, state, onlooker)
        self.close = held.close
        self.begin = partial(Shard, directory, number, config, state, held, batch)
        """Cut everything written after the state, and continue from there."""


class Shard:
    def __init__(
        self,
        directory: Path,
        number: int,
        config: IndexerConfig,
        state: ShardState,
        held: HeldShard | None = None,
        batch: int = 0,
    ):
        """Open the shard at `state`; everything written later is cut."""
        held = held or HeldShard(directory, number, config, state)
        self._held, self._guests = held, held.guests
        self._directory, self._number, self._config = directory, number, config
        self._batch = batch or state.batch + 1
        with storing(directory, *STORES):
            sync_directory(directory)
            self._archive = Archive(directory / "archive", number, config, state)
            self._index = TextIndex(directory / "index", number, config, state)
            self._doubles = Doubles(directory / "archive")
            self._turnover = Turnover(directory / "index", number, state)
        self._links = Links(config, self._guests.admission)
        copies = HeldCopies(directory / "archive", self._doubles, self._archive)
        self._judge = Judge(copies.answer, limit=config.decoded_limit, rules=config.noise)

    # -- one response

    def take(self, number: int, outcome: Page | Unchanged | Moved | Failed, *, bare: bool = False) -> Parsed:
        """Process one outcome; `bare` skips plug-ins, after one of them killed a worker on this page."""
        link, response = outcome.link, outcome.response
        if isinstance(outcome, Page) and link.kind is not Kind.EXCLUSION:
            return self._page(number, link, outcome.response, bare)
        meaning = meaning_of(outcome, self._config)
        if meaning.leaves:
            self._remove(link)
        if response is None:
            assert isinstance(outcome, Failed)
            row = row_of(link, meaning.kind, outcome.at, reason=meaning.reason, detail=meaning.detail)
            return self._parsed(number, row)
        if isinstance(outcome, Unchanged):
            return self._unchanged(number, link, response, meaning)
        mime, detail = mime_of(response), meaning.detail
        digest = written(payload_digest(response.body))
        stored = self._archive.store(link, response, payload=response.body, digest=digest)
        links: list[Link] = []
        if meaning.target:
            self._links.begin(link.url, bare=bare)
            links = self._links.follow(link, Url(meaning.target), response.ended_at)
            detail = self._links.complaint
        elif link.kind is Kind.SITEMAP and response.truncated and response.status == 200:
            # Some of its URLs arrived, although the sitemap is incomplete.
            links = read_contents(
                link, response, self._config, self._links, self._guests.readers, bare=bare
            ).links
        columns: dict[str, Any] = {"reason": meaning.reason, "detail": detail, "target": meaning.target}
        columns.update(status=response.status, mime=mime, digest=digest, size=len(response.body))
        judgement = of_answer(link, meaning.kind, gone=meaning.gone, moved=meaning.leaves)
        row = row_of(
            link,
            meaning.kind,
            response.ended_at,
            judgement,
            warc=stored.warc,
            offset=stored.offset,
            **columns,
        )
        return self._parsed(
            number, row, links, sighting=sight_again(link, response, gone=True) if meaning.gone else None
        )

    def _unchanged(self, number: int, link: Link, response: Response, meaning: Meaning) -> Parsed:
        """Record that the stored version is current; the archive gets a revisit record if configured."""
        digest = link.digest or written(payload_digest(b""))
        columns: dict[str, Any] = {"status": response.status, "mime": mime_of(response), "digest": digest}
        if self._config.revisits or not link.was:
            stored = self._archive.store(link, response, payload=b"", digest=digest)
            columns.update(warc=stored.warc, offset=stored.offset)
        sighting = sight_again(link, response, gone=False)
        columns.update(etag=sighting.etag, last_modified=sighting.last_modified, unlisted=meaning.unlisted)
        row = row_of(link, meaning.kind, response.ended_at, of_answer(link, meaning.kind), **columns)
        return self._parsed(number, row, sighting=sighting)

    def _page(self, number: int, link: Link, response: Response, bare: bool) -> Parsed:
        config = self._config
        read = read_contents(link, response, config, self._links, self._guests.readers, bare=bare)
        body, reason, detail, charset, page = read.body, read.reason, read.detail, read.charset, read.page
        mime, indexed = read.mime, read.indexed
        payload = payload_digest(response.body)
        digest = written(payload)
        if not config.revisits and reason is None and link.was == OutcomeKind.PAGE and digest == link.digest:
            same = unchanged(response, config, polled=True)
            if same.leaves:
                self._remove(link)
            return self._unchanged(number, link, response, same)
        simhash, words = sketch(page.text)
        earlier = self._earlier(payload, digest)
        lookalike = self._lookalike(simhash, words) if earlier is None else ""
        fields = b""
        if charset:
            fields = b"charset-for-link-extraction: %b\r\n" % charset.encode()
        if config.outlinks:
            fields += b"".join(b"outlink: %b\r\n" % href.encode("utf-8", "replace") for href in page.hrefs)
        rows, complaint = Rows(), read.complaint
        if self._guests.harvest is not None and reason is None:
            harvested = self._guests.harvest.of(link, response, read, bare)
            if isinstance(harvested, Complaint):
                complaint = complaint or str(harvested)
                detail = f"{detail}; {harvested}" if detail else str(harvested)
            else:
                rows = harvested
        original = earlier if len(response.body) >= WORTH_A_REVISIT else None
        stored = self._archive.store(
            link,
            response,
            payload=response.body,
            digest=digest,
            fields=fields,
            items=rows.lines,
            earlier=original,
        )
        key = key_of(link.url, config.key_seed)
        if link.again and reason is None and self._turnover.note(key, self._batch, present=indexed):
            self._index.take_back(key, self._batch)
        if indexed:
            self._turnover.added(key)
            canonical = page.canonical if page.canonical != link.url else ""
            self._index.add(
                url=link.url,
                key=key,
                title=page.title,
                text=page.text,
                batch=self._batch,
                canonical=canonical,
            )
        columns: dict[str, Any] = {
            "status": response.status,
            "mime": mime,
            "detail": detail,
            "digest": digest,
        }
        columns.update(title=page.title, language=page.language, charset=charset, canonical=page.canonical)
        columns.update(simhash=simhash, words=words, size=len(body), links=page.anchors, indexed=indexed)
        columns.update(warc=stored.warc, offset=stored.offset, items=rows.count, items_at=stored.items_at)
        if earlier is not None and earlier[0] != link.url:
            columns["duplicate_of"] = earlier[0]
        if lookalike != link.url:
            columns["near_duplicate_of"] = lookalike
        kind, sighting, judgement = OutcomeKind.PAGE, None, UNHEARD
        if reason is None:
            sighting = sight(link, response, digest, simhash)
            columns.update(etag=sighting.etag, last_modified=sighting.last_modified)
            if link.door is Door.POLLED:
                judgement = self._judge.of_page(link, response, body, digest, simhash)
            if earlier is None and response.body:
                self._doubles.note(self._batch, payload, simhash, stored.place)
        else:
            kind = OutcomeKind.FAILED
            columns["reason"] = reason
        return self._parsed(
            number,
            row_of(link, kind, response.ended_at, judgement, **columns),
            read.links,
            left_out=read.left_out,
            complaint=f"{complaint}, on {link.url[:200]}" if complaint else "",
            sighting=sighting,
        )

    def _remove(self, link: Link) -> None:
        """Remove a page that no longer exists from the index, effective at the checkpoint."""
        key = key_of(link.url, self._config.key_seed)
        if self._turnover.note(key, self._batch, present=False):
            self._index.take_back(key, self._batch)

    def _earlier(self, payload: bytes, digest: str) -> tuple[str, str] | None:
        """Return URL and timestamp of an earlier record with the same payload."""
        place = self._doubles.same(payload)
        entry = self._archive.look_up(place) if place is not None else None
        # Only if the CDXJ line agrees: a reference to the wrong record would lose this page.
        return (entry[1].url, entry[0]) if entry is not None and entry[1].digest == digest[5:] else None

    def _lookalike(self, simhash: int, words: int) -> str:
        place = self._doubles.near(simhash, reach(words))
        entry = self._archive.look_up(place) if place is not None else None
        return entry[1].url if entry is not None else ""

    def _parsed(self, number: int, row: OutcomeRow, links: Sequence[Link] = (), **extra: Any) -> Parsed:
        place, held = (number, self._number, self._batch), tuple(self._links.take_held())
        return Parsed(*place, row.kind, _encode(row), tuple(links), row.size, row.reason, held=held, **extra)

    def widen(self, joined: Sequence[Url], is_open: bool) -> None:
        """Extend the scope by pages that seeds redirected to."""
        self._links.widen(joined, is_open)

    # -- checkpoints

    def prepare(self) -> ShardState:
        """Make this batch durable and begin the next; return the state to save."""
        with storing(self._directory, *STORES):
            self._archive.sync()
            self._index.commit()
            self._index.keep(self._batch)
            # After the documents: a concurrent reader sees both versions and takes the newer one.
            copies = self._turnover.seal(self._batch)
        serial, warc, warc_length, cdxj_length = self._archive.position
        state = ShardState(
            batch=self._batch,
            serial=serial,
            warc=warc,
            warc_length=warc_length,
            cdxj_length=cdxj_length,
            generation=self._index.generation,
            generation_bytes=self._index.bytes,
            copies=copies,
        )
        self._batch += 1
        return state

    def committed(self, batch: int) -> None:
        with storing(self._directory, *STORES):
            self._doubles.committed(batch)
            self._index.forget_before(batch)
            self._turnover.committed(batch, self._index.generation)

    def finish(self) -> None:
        with storing(self._directory, *STORES):
            self._index.finish()

    def close(self) -> None:
        self._index.close()
        self._archive.close()
        self._doubles.close()
        self._turnover.close()
        self._held.close()
