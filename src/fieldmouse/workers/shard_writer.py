"""Shard: archives, parses and indexes responses, runs plug-ins on them, and keeps its files consistent.

A shard is locked and verified before anything in it is changed. Every response is archived. A 2xx page is
also parsed and added to the full-text index unless it forbids indexing; a sitemap is read for its URLs; a
redirect becomes a link. All files of a shard move together from one saved state to the next: `prepare`
makes them durable and returns the new state.

The user's `extract` is called for each stored page. Its rows are encoded at once and archived beside the
response, so they are exactly as durable as their page.
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
from selectolax.lexbor import LexborHTMLParser

from fieldmouse.archive import duplicate_detection, warc_writer
from fieldmouse.archive.duplicate_detection import DigestStore, format_digest, payload_digest
from fieldmouse.archive.warc_reader import ArchivedVersionReader
from fieldmouse.archive.warc_writer import MIN_REVISIT_BYTES, WarcWriter
from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.diff.change_detection import (
    NO_NEWS,
    ChangeJudge,
    judge_other_response,
    observation_of_page,
    observation_without_body,
)
from fieldmouse.errors import FieldmouseError, storage_errors
from fieldmouse.import_string import import_callable
from fieldmouse.parse import content
from fieldmouse.parse.html import RobotsDirectives, parse_robots_tag
from fieldmouse.parse.html_parse_cost import limit_parse_cost
from fieldmouse.parse.links import LinkExtractor
from fieldmouse.plugins.link_filter import AdmitPlugin, EncodedExtractRows, encode_rows
from fieldmouse.plugins.page import FoundLink, PageText, ParsedPage, RawPage
from fieldmouse.plugins.runner import CallObserver, PluginConfig, PluginFailure, call_plugin
from fieldmouse.search import index
from fieldmouse.search.index import IndexWriter
from fieldmouse.search.newest_versions import verify_version_log
from fieldmouse.search.replaced_documents import DocumentReplacements
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.storage.log import sync_directory
from fieldmouse.types.outcome import (
    GONE_STATUSES,
    Failed,
    Moved,
    OutcomeRow,
    Page,
    Response,
    Unchanged,
    WorkerResult,
    outcome_row,
)
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import FrontierEntry, Request, RequestKind
from fieldmouse.url import Url, key_of


class ExtractPlugin:
    def __init__(self, names: PluginConfig, onlooker: CallObserver):
        """Load `extract`; raises `FieldmouseError` if it cannot be loaded."""
        self._extract = import_callable(names.extract, "extract", names.path)
        self._names, self._observer = names, onlooker

    def extract_rows(
        self, link: Request, response: Response, read: content.PageContent, bare: bool = False
    ) -> EncodedExtractRows | PluginFailure:
        """The rows of the page, or the plug-in's error; `extract` is not called if `bare`."""
        if bare:
            return PluginFailure(self._names.extract, "was left out: plug-ins brought workers down")
        document, status, limit = read.document, response.status, self._names.most_bytes
        answer = RawPage(url=link.url, status=status, mime=read.mime, body=read.body, fields=response.headers)
        text = PageText(document.text, document.title, document.hrefs, document.language)
        found = FoundLink(link.url, link.via, link.depth, link.kind.value)
        tree = partial(_parse_tree, read)
        page = ParsedPage(answer, text, found, at=response.ended_at, base=document.base, tree=tree)
        name, patience = self._names.extract, self._names.patience
        return call_plugin(name, patience, self._observer, lambda: encode_rows(self._extract(page), limit))


def _parse_tree(read: content.PageContent) -> LexborHTMLParser | None:
    if not content.is_html(read.mime, read.body):
        return None
    html = content.html_for_parser(read.body, read.charset)
    raw, _ = limit_parse_cost(html.encode("utf-8", "replace") if isinstance(html, str) else html)
    return LexborHTMLParser(raw)


class WorkerPlugins:
    """The configured plug-ins; without any, nothing is loaded or called."""

    def __init__(self, names: PluginConfig, onlooker: CallObserver | None = None):
        """`observer` is notified of each call. Raises `FieldmouseError` if a plug-in cannot be loaded."""
        onlooker = onlooker or CallObserver()
        self.extractor = ExtractPlugin(names, onlooker) if names.extract else None
        self.link_filter = AdmitPlugin(names, onlooker) if names.admit else None
        self.readers = content.load_readers(names, onlooker) if names.readers else content.READERS


#: Errors that lmdb and tantivy raise when the disk fails.
STORAGE_ERRORS = (lmdb.Error, ValueError)


class LockedShard:
    """A locked and checked shard; nothing in it has been changed yet."""

    def __init__(
        self,
        directory: Path,
        number: int,
        config: PageProcessingConfig,
        state: ShardState,
        observer: CallObserver | None = None,
        batch: int = 0,
    ):
        """Raises `DamagedFile` if the shard cannot be restored to `state`, and `FieldmouseError` if a plug-in
        cannot be loaded."""
        self.directory, self.number, self.config, self.state = directory, number, config, state
        self.batch = batch or state.batch + 1
        self.plugins = WorkerPlugins(config.plugins, observer)
        with storage_errors(directory):
            for folder in (directory / "archive", directory / "index"):
                folder.mkdir(parents=True, exist_ok=True)
            self.lock = os.open(directory / "index" / f"shard-{number}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with storage_errors(directory, *STORAGE_ERRORS):
                # The previous worker may still be exiting; two must not write at once.
                fcntl.flock(self.lock, fcntl.LOCK_EX)
                warc_writer.verify_archive(directory / "archive", number, state)
                index.verify_index(directory / "index", number, state)
                verify_version_log(directory / "index", number, state.copies)
                if state.batch:
                    duplicate_detection.verify_digests(directory / "archive")
        except FieldmouseError:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.lock)


class OutcomeFields(NamedTuple):
    """Values for the row in the outcome log."""

    kind: OutcomeKind
    reason: OutcomeReason = OutcomeReason.NONE
    detail: str = ""
    target: str = ""
    removes_document: bool = False  # the indexed version must be removed from search
    unlisted: bool = False
    gone: bool = False


def interpret_outcome(outcome: Page | Unchanged | Moved | Failed, config: PageProcessingConfig) -> OutcomeFields:
    """Interpret every outcome except a page to be read. Only a re-crawled URL has an indexed version."""
    link = outcome.link
    if isinstance(outcome, Failed):
        gone = outcome.response is not None and outcome.response.status in GONE_STATUSES
        excluded = outcome.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED
        kind = OutcomeKind.REFUSED if excluded else OutcomeKind.FAILED
        leaves = link.may_have_stored_copy and (gone or excluded)
        return OutcomeFields(kind, outcome.reason, outcome.detail, removes_document=leaves, gone=gone)
    if isinstance(outcome, Moved):
        return OutcomeFields(OutcomeKind.MOVED, target=outcome.target, removes_document=outcome.for_good)
    if isinstance(outcome, Unchanged):
        return interpret_unchanged(outcome.response, config, polled=bool(link.was))
    return OutcomeFields(OutcomeKind.PAGE)


def interpret_unchanged(response: Response, config: PageProcessingConfig, *, polled: bool) -> OutcomeFields:
    """Interpret an unchanged page; its headers may forbid indexing now."""
    rules = RobotsDirectives()
    for name, value in response.headers:
        if name == "x-robots-tag":
            parse_robots_tag(value, rules, config.robot)
    unlisted = polled and rules.noindex and config.nofollow
    return OutcomeFields(OutcomeKind.UNCHANGED, removes_document=unlisted, unlisted=unlisted)


_encode = msgspec.msgpack.Encoder().encode


class ShardWriter:
    def __init__(self, locked: LockedShard):
        """Cut everything written after the state of the shard, and continue from there."""
        self._locked, self._plugins = locked, locked.plugins
        directory, number, config, state = locked.directory, locked.number, locked.config, locked.state
        self._directory, self._number, self._config, self._batch = directory, number, config, locked.batch
        with storage_errors(directory, *STORAGE_ERRORS):
            sync_directory(directory)
            self._archive = WarcWriter(directory / "archive", number, config, state)
            self._index = IndexWriter(directory / "index", number, config, state)
            self._doubles = DigestStore(directory / "archive")
            self._turnover = DocumentReplacements(directory / "index", number, state)
        self._links = LinkExtractor(config, self._plugins.link_filter)
        copies = ArchivedVersionReader(directory / "archive", self._doubles, self._archive)
        self._judge = ChangeJudge(copies.read_response, limit=config.decoded_limit, rules=config.noise)

    # -- one response

    def process_outcome(
        self, number: int, outcome: Page | Unchanged | Moved | Failed, *, bare: bool = False
    ) -> WorkerResult:
        """Process one outcome; `bare` skips plug-ins, after one of them killed a worker on this page."""
        link, response = outcome.link, outcome.response
        if isinstance(outcome, Page) and link.kind is not RequestKind.ROBOTS_TXT:
            return self._process_page(number, link, outcome.response, bare)
        meaning = interpret_outcome(outcome, self._config)
        if meaning.removes_document:
            self._remove_from_index(link)
        if response is None:
            assert isinstance(outcome, Failed)
            row = outcome_row(link, meaning.kind, outcome.at, reason=meaning.reason, detail=meaning.detail)
            return self._make_result(number, row)
        if isinstance(outcome, Unchanged):
            return self._process_unchanged(number, link, response, meaning)
        mime, detail = content.response_mime(response), meaning.detail
        digest = format_digest(payload_digest(response.body))
        stored = self._archive.write_response(link, response, payload=response.body, digest=digest)
        links: list[Request] = []
        if meaning.target:
            self._links.start_page(link.url, bare=bare)
            links = self._links.redirect_link(link, Url(meaning.target), response.ended_at)
            detail = self._links.plugin_error
        elif link.kind is RequestKind.SITEMAP and response.truncated and response.status == 200:
            # Some of its URLs arrived, although the sitemap is incomplete.
            links = self._read_content(link, response, bare).links
        columns: dict[str, Any] = {"reason": meaning.reason, "detail": detail, "target": meaning.target}
        columns.update(status=response.status, mime=mime, digest=digest, size=len(response.body))
        judgement = judge_other_response(link, meaning.kind, gone=meaning.gone, moved=meaning.removes_document)
        columns.update(warc=stored.warc, offset=stored.offset, **judgement._asdict())
        row = outcome_row(link, meaning.kind, response.ended_at, **columns)
        sighting = observation_without_body(link, response, gone=True) if meaning.gone else None
        return self._make_result(number, row, links, sighting=sighting)

    def _process_unchanged(
        self, number: int, link: Request, response: Response, meaning: OutcomeFields
    ) -> WorkerResult:
        """Record that the stored version is current; the archive gets a revisit record if configured."""
        digest = link.digest or format_digest(payload_digest(b""))
        columns: dict[str, Any] = {"status": response.status, "mime": content.response_mime(response), "digest": digest}
        if self._config.revisits or not link.was:
            stored = self._archive.write_response(link, response, payload=b"", digest=digest)
            columns.update(warc=stored.warc, offset=stored.offset)
        sighting = observation_without_body(link, response, gone=False)
        columns.update(etag=sighting.etag, last_modified=sighting.last_modified, unlisted=meaning.unlisted)
        columns |= judge_other_response(link, meaning.kind)._asdict()
        row = outcome_row(link, meaning.kind, response.ended_at, **columns)
        return self._make_result(number, row, sighting=sighting)

    def _process_page(self, number: int, link: Request, response: Response, bare: bool) -> WorkerResult:
        config = self._config
        read = self._read_content(link, response, bare)
        body, reason, detail, charset, page = read.body, read.reason, read.detail, read.charset, read.document
        mime, indexed = read.mime, read.indexable
        payload = payload_digest(response.body)
        digest = format_digest(payload)
        if not config.revisits and reason is None and link.was == OutcomeKind.PAGE and digest == link.digest:
            same = interpret_unchanged(response, config, polled=True)
            if same.removes_document:
                self._remove_from_index(link)
            return self._process_unchanged(number, link, response, same)
        simhash, words = duplicate_detection.compute_sketch(page.text)
        earlier = self._find_same_payload(payload, digest)
        lookalike = self._find_near_duplicate(simhash, words) if earlier is None else ""
        fields = b"charset-for-link-extraction: %b\r\n" % charset.encode() if charset else b""
        if config.outlinks:
            fields += b"".join(b"outlink: %b\r\n" % href.encode("utf-8", "replace") for href in page.hrefs)
        rows, complaint = EncodedExtractRows(), read.plugin_error
        if self._plugins.extractor is not None and reason is None:
            extracted = self._plugins.extractor.extract_rows(link, response, read, bare)
            if isinstance(extracted, PluginFailure):
                complaint = complaint or str(extracted)
                detail = f"{detail}; {extracted}" if detail else str(extracted)
            else:
                rows = extracted
        original = earlier if len(response.body) >= MIN_REVISIT_BYTES else None
        stored = self._archive.write_response(
            link, response, payload=response.body, digest=digest, fields=fields, items=rows.lines, earlier=original
        )
        key = key_of(link.url, config.key_seed)
        if link.may_have_stored_copy and reason is None:
            self._replace_version(key, present=indexed)
        if indexed:
            self._turnover.note_document_in_batch(key)
            canonical = page.canonical if page.canonical != link.url else ""
            self._index.add_document(
                url=link.url, key=key, title=page.title, text=page.text, batch=self._batch, canonical=canonical
            )
        columns: dict[str, Any] = {"status": response.status, "mime": mime, "detail": detail, "digest": digest}
        columns.update(title=page.title, language=page.language, charset=charset, canonical=page.canonical)
        columns.update(simhash=simhash, words=words, size=len(body), links=page.anchors, indexed=indexed)
        columns.update(warc=stored.warc, offset=stored.offset, items=rows.count, items_at=stored.items_at)
        if earlier is not None and earlier[0] != link.url:
            columns["duplicate_of"] = earlier[0]
        if lookalike != link.url:
            columns["near_duplicate_of"] = lookalike
        kind, sighting, judgement = OutcomeKind.PAGE, None, NO_NEWS
        if reason is None:
            sighting = observation_of_page(link, response, digest, simhash)
            columns.update(etag=sighting.etag, last_modified=sighting.last_modified)
            if link.door is FrontierEntry.POLLED:
                judgement = self._judge.judge_page(link, response, body, digest, simhash)
            if earlier is None and response.body:
                self._doubles.remember_page(self._batch, payload, simhash, stored.cdxj_place)
        else:
            kind = OutcomeKind.FAILED
            columns["reason"] = reason
        return self._make_result(
            number,
            outcome_row(link, kind, response.ended_at, **columns, **judgement._asdict()),
            read.links,
            left_out=read.dropped_links,
            complaint=f"{complaint}, on {link.url[:200]}" if complaint else "",
            sighting=sighting,
        )

    def _read_content(self, link: Request, response: Response, bare: bool) -> content.PageContent:
        readers = self._plugins.readers
        return content.read_page_content(link, response, self._config, self._links, readers, bare=bare)

    def _remove_from_index(self, link: Request) -> None:
        """Remove a page that no longer exists from the index, effective at the checkpoint."""
        self._replace_version(key_of(link.url, self._config.key_seed), present=False)

    def _replace_version(self, key: int, *, present: bool) -> None:
        """Delete the indexed version of a page; `present`: a newer one is added."""
        if self._turnover.log_replacement(key, self._batch, present=present):
            self._index.delete_version(key, self._batch)

    def _find_same_payload(self, payload: bytes, digest: str) -> tuple[str, str] | None:
        """Return URL and timestamp of an earlier record with the same payload."""
        place = self._doubles.find_exact(payload)
        entry = self._archive.read_cdxj_line(place) if place is not None else None
        # Only if the CDXJ line agrees: a reference to the wrong record would lose this page.
        return (entry[1].url, entry[0]) if entry is not None and entry[1].digest == digest[5:] else None

    def _find_near_duplicate(self, simhash: int, words: int) -> str:
        place = self._doubles.find_similar(simhash, duplicate_detection.max_sketch_distance(words))
        entry = self._archive.read_cdxj_line(place) if place is not None else None
        return entry[1].url if entry is not None else ""

    def _make_result(self, number: int, row: OutcomeRow, links: Sequence[Request] = (), **extra: Any) -> WorkerResult:
        place, held = (number, self._number, self._batch), tuple(self._links.take_held_links())
        return WorkerResult(*place, row.kind, _encode(row), tuple(links), row.size, row.reason, held=held, **extra)

    def add_to_scope(self, joined: Sequence[Url], is_open: bool) -> None:
        """Extend the scope by pages that seeds redirected to."""
        self._links.add_to_scope(joined, is_open)

    # -- checkpoints

    def prepare_commit(self) -> ShardState:
        """Make this batch durable and begin the next; return the state to save."""
        with storage_errors(self._directory, *STORAGE_ERRORS):
            self._archive.sync()
            self._index.commit()
            self._index.save_snapshot(self._batch)
            # After the documents: a concurrent reader sees both versions and takes the newer one.
            copies = self._turnover.make_durable(self._batch)
        serial, warc, warc_length, cdxj_length = self._archive.file_positions
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

    def mark_committed(self, batch: int) -> None:
        with storage_errors(self._directory, *STORAGE_ERRORS):
            self._doubles.write_committed(batch)
            self._index.delete_snapshots_before(batch)
            self._turnover.delete_replaced_after_commit(batch, self._index.generation)

    def finish_merges(self) -> None:
        with storage_errors(self._directory, *STORAGE_ERRORS):
            self._index.finish()

    def close(self) -> None:
        self._index.close()
        self._archive.close()
        self._doubles.close()
        self._turnover.close()
        self._locked.close()
