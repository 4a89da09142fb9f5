"""Scope of a running crawl, which grows with the redirects of its seeds.

The settings define a scope around the seeds. The page at the end of a seed's redirects counts as a seed,
too: it joins the scope. The checkpoint stores these additions, so that a resumed run has the same scope.

Pages may be read before it is known where every seed leads. Their links to hosts that may still join are
held back in a log, until the host joins (then they are followed) or every seed has its outcome (then no
other host can join).

A scope looks forward only: other links that were outside it when their page was read are not kept. A run
whose settings define another scope than the last run logs a warning.

On a cluster, agents share their additions through the coordinator. An agent that leases a host before it
learns of the addition adds the host when it stores a page of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import xxhash

from fieldmouse.policy.scope import SavedScope, Scope, SharedScopeAdditions
from fieldmouse.storage import checkpoint, outcome_log_reader
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import read_records
from fieldmouse.types.outcome import OutcomeRow, WorkerResult
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Request
from fieldmouse.url import Url, host_of

log = logging.getLogger(__name__)

#: Bytes of links that are held back; more are dropped, with a warning.
MAX_HELD_BYTES = 64 << 20
SCOPE_CHANGED = (
    "the scope differs from the last run: it applies to links found from now on; pages read before"
    " are not read again for links that were outside it"
)
_link = msgspec.msgpack.Decoder(Request).decode
_row = msgspec.msgpack.Decoder(OutcomeRow).decode
_encode = msgspec.msgpack.Encoder().encode


class ScopeChange(NamedTuple):
    """Changes of the scope, for the worker processes."""

    added: tuple[Url, ...]
    may_grow: bool  # more hosts may join


class CrawlScope(checkpoint.Durable):
    """The current scope. A part of the checkpoint; the additions are its state."""

    name = "scope"

    def __init__(
        self,
        base: Scope,
        seeds: Sequence[Url],
        home: CrawlDir,
        last: checkpoint.Checkpoint | None,
        *,
        shared: SharedScopeAdditions | None,
    ):
        """`shared` exchanges additions with the other agents of the crawl."""
        self._mark = xxhash.xxh3_128_hexdigest(msgspec.json.encode(base, order="deterministic"))
        state = checkpoint.sealed_scope(last)
        # Crawls older than this feature have no mark.
        self._is_changed = bool(state.mark) and state.mark != self._mark
        self._joined = list(state.joined)
        self.scope = base.with_seeds(self._joined)
        self._seeds, self._shared = len(seeds), shared
        self._news: list[Url] = []
        if shared is not None:
            shared.publish(self._joined)
        self._warned = False
        self.held_links = checkpoint.DurableLog("held", home / "held.log", last) if base.can_grow else None
        # positions of held links, by the part of the scope their host may join
        self._waiting: dict[str, list[int]] = {}
        self._unsettled: set[Url] = set()  # seeds and their redirect targets that have no outcome yet
        self._targets: dict[Url, Url | None] = {}  # of the outcomes so far: redirect target, None without one
        if self.held_links is not None and (state.open or state.seeds != len(seeds)):
            self._unsettled.update(seeds)
            length = checkpoint.sealed_outcome_bytes(last) if last is not None else 0
            self._follow_seed_redirects(outcome_log_reader.outcome_rows(home, length=length) if length else ())
            if self.may_grow:
                self._index_held_links()
        self._was_open = self.may_grow

    @property
    def may_grow(self) -> bool:
        """Whether a redirect of a seed may still add hosts to the scope."""
        return bool(self._unsettled)

    # -- links

    def filter_links(self, links: Iterable[Request], *, depth: int | None = None) -> list[Request]:
        """The links in scope; others are held back if they may come into it. `depth` replaces their own
        depth."""
        admitted = []
        for link in links:
            if self.scope.admits(link.url, link.depth if depth is None else depth):
                admitted.append(link)
            elif self.may_grow and self.scope.can_host_join(host_of(link.url)):
                self._hold_link(link)
        return admitted

    def _hold_link(self, link: Request) -> None:
        assert self.held_links is not None, "nothing may join a scope that cannot grow"
        if self.held_links.length > MAX_HELD_BYTES:
            if not self._warned:
                log.warning("too many links lead to hosts that a seed may redirect to: further ones are dropped")
            self._warned = True
            return
        place = self.held_links.append(_encode(link))
        self._waiting.setdefault(self.scope.scope_key(host_of(link.url)), []).append(place)

    def _index_held_links(self) -> None:
        """Find the links held back by earlier runs; those in scope were followed when their host joined."""
        assert self.held_links is not None
        for place, record in read_records(self.held_links.path, length=self.held_links.length):
            host = host_of(_link(record).url)
            if not self.scope.admits_host(host):
                self._waiting.setdefault(self.scope.scope_key(host), []).append(place)

    def _take_held_links(self, url: Url) -> list[Request]:
        places = self._waiting.pop(self.scope.scope_key(host_of(url)), [])
        held = [_link(self.held_links.read_record(place)) for place in places] if self.held_links is not None else []
        return [link for link in held if self.scope.admits_path(link.url)]

    # -- seeds

    def widen_by_result(self, link: Request, parsed: WorkerResult) -> list[Request]:
        """Handle a page, or a redirect of a seed; returns held links that are now in scope."""
        if parsed.kind is OutcomeKind.PAGE:
            may = link.is_from_seed or self._shared is not None
            if may and not self.scope.admits(link.url) and self.scope.follows_seed_redirect(link.url):
                return self._join_from_redirect(link)
        elif parsed.kind is OutcomeKind.MOVED and link.is_from_seed:
            target = Url(_row(parsed.row).target)
            if not self.scope.follows_seed_redirect(target):
                log.warning(
                    "seed %s redirects to %s, which is out of scope; to crawl it, add it with"
                    " `resume --seed`, or begin with `--follow-seed-redirects`",
                    link.trail[0] if link.trail else link.url,
                    target,
                )
        return []

    def apply_shared_additions(self) -> list[Request]:
        """Add what other agents added to the scope; returns held links that are now in scope."""
        links: list[Request] = []
        for url in self._shared.take_received() if self._shared is not None else ():
            if not self.scope.admits(url) and self.scope.follows_seed_redirect(url):
                links += self._add_to_scope(url)
        return links

    def _add_to_scope(self, url: Url) -> list[Request]:
        self._joined.append(url)
        self._news.append(url)
        self.scope = self.scope.with_seeds([url])
        return self._take_held_links(url)

    def _join_from_redirect(self, link: Request) -> list[Request]:
        if self._shared is not None:
            self._shared.publish([link.url])
        released = self._add_to_scope(link.url)
        if link.is_from_seed:
            what = {"page": "that page", "host": "its host", "site": "its site"}[self.scope.mode]
            seed = link.trail[0] if link.trail else link.via
            log.info("seed %s redirects to %s: %s is in scope", seed, link.url, what)
        return released

    def update_unsettled_seeds(self, rows: Iterable[bytes]) -> None:
        """Handle outcomes that are durable from the next checkpoint on."""
        if self._unsettled:
            self._follow_seed_redirects(map(_row, rows))

    def _follow_seed_redirects(self, rows: Iterable[OutcomeRow]) -> None:
        """Follow the redirects of seeds; their rows may come in any order."""
        ended = []
        for row in rows:
            if row.depth == 0 or row.url in self._unsettled:
                is_followed = row.kind is OutcomeKind.MOVED and self.scope.follows_seed_redirect(Url(row.target))
                self._targets[row.url] = Url(row.target) if is_followed else None
                if row.url in self._unsettled:
                    ended.append(row.url)
        for url in ended:
            here: Url | None = url
            passed: set[Url] = set()  # redirects may form a cycle
            while here is not None and here in self._targets and here not in passed:
                passed.add(here)
                self._unsettled.discard(here)
                here = self._targets[here]
            if here is not None and here not in self._targets:
                self._unsettled.add(here)
        if not self._unsettled:
            self._targets.clear()
            self._waiting.clear()

    def take_changes_for_workers(self) -> ScopeChange | None:
        """Changes that the worker processes have not received yet; None without changes."""
        if not self._news and self._was_open == self.may_grow:
            return None
        news = ScopeChange(tuple(self._news), self.may_grow)
        self._news.clear()
        self._was_open = self.may_grow
        return news

    # -- part of the checkpoint

    def roll_back_to_checkpoint(self) -> None:
        if self._is_changed:
            log.warning(SCOPE_CHANGED)

    def seal(self) -> checkpoint.SealedPart[SavedScope]:
        return checkpoint.SealedPart(SavedScope(self._mark, tuple(self._joined), self.may_grow, self._seeds))
