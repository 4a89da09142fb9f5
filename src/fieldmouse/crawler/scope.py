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

from fieldmouse.cluster.client.shared_scope import SharedScope
from fieldmouse.policy.scope import Scope, ScopeState
from fieldmouse.storage import outcome_log
from fieldmouse.storage.checkpoint import (
    Checkpoint,
    DurableLog,
    Sealed,
    sealed_outcomes,
    sealed_scope,
)
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import records
from fieldmouse.types.outcome import OutcomeRow, Parsed
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Link
from fieldmouse.url import Url, host_of

log = logging.getLogger(__name__)

HELD = 64 << 20
"""Bytes of links that are held back; more are dropped, with a warning."""
CHANGED = (
    "the scope differs from the last run: it applies to links found from now on; pages read before"
    " are not read again for links that were outside it"
)
_link = msgspec.msgpack.Decoder(Link).decode
_row = msgspec.msgpack.Decoder(OutcomeRow).decode
_encode = msgspec.msgpack.Encoder().encode


class ScopeNews(NamedTuple):
    """Changes of the scope, for the worker processes."""

    joined: tuple[Url, ...]
    is_open: bool  # more hosts may join


class CrawlScope:
    """The current scope. A part of the checkpoint; the additions are its state."""

    name = "scope"

    def __init__(
        self,
        base: Scope,
        seeds: Sequence[Url],
        home: CrawlDir,
        last: Checkpoint | None,
        *,
        shared: SharedScope | None,
    ):
        """`shared` exchanges additions with the other agents of the crawl."""
        self._mark = xxhash.xxh3_128_hexdigest(_encode_deterministic(base))
        state = sealed_scope(last)
        # Crawls older than this feature have no mark.
        self._is_changed = bool(state.mark) and state.mark != self._mark
        self._joined = list(state.joined)
        self.scope = base.joined(self._joined)
        self._seeds, self._shared = len(seeds), shared
        self._news: list[Url] = []
        if shared is not None:
            shared.publish(self._joined)
        self._warned = False
        self.held = DurableLog("held", home / "held.log", last) if base.may_grow else None
        # positions of held links, by the part of the scope their host may join
        self._waiting: dict[str, list[int]] = {}
        self._unsettled: set[Url] = set()  # seeds and their redirect targets that have no outcome yet
        self._targets: dict[Url, Url | None] = {}  # of the outcomes so far: redirect target, None without one
        if self.held is not None and (state.open or state.seeds != len(seeds)):
            self._unsettled.update(seeds)
            length = sealed_outcomes(last) if last is not None else 0
            self._note_outcomes(outcome_log.rows(home, length=length) if length else ())
            if self.is_open:
                self._find_held()
        self._was_open = self.is_open

    @property
    def is_open(self) -> bool:
        """Whether a redirect of a seed may still add hosts to the scope."""
        return bool(self._unsettled)

    # -- links

    def admit(self, links: Iterable[Link], *, depth: int | None = None) -> list[Link]:
        """The links in scope; others are held back if they may come into it. `depth` replaces their own
        depth."""
        admitted = []
        for link in links:
            if self.scope.admits(link.url, link.depth if depth is None else depth):
                admitted.append(link)
            elif self.is_open and self.scope.may_join(host_of(link.url)):
                self._hold(link)
        return admitted

    def _hold(self, link: Link) -> None:
        assert self.held is not None, "nothing may join a scope that cannot grow"
        if self.held.length > HELD:
            if not self._warned:
                log.warning(
                    "too many links lead to hosts that a seed may redirect to: further ones are dropped"
                )
            self._warned = True
            return
        place = self.held.append(_encode(link))
        self._waiting.setdefault(self.scope.joins_as(host_of(link.url)), []).append(place)

    def _find_held(self) -> None:
        """Find the links held back by earlier runs; those in scope were followed when their host joined."""
        assert self.held is not None
        for place, record in records(self.held.path, length=self.held.length):
            host = host_of(_link(record).url)
            if not self.scope.admits_host(host):
                self._waiting.setdefault(self.scope.joins_as(host), []).append(place)

    def _released(self, url: Url) -> list[Link]:
        places = self._waiting.pop(self.scope.joins_as(host_of(url)), [])
        held = [_link(self.held.read(place)) for place in places] if self.held is not None else []
        return [link for link in held if self.scope.admits_path(link.url)]

    # -- seeds

    def note_answer(self, link: Link, parsed: Parsed) -> list[Link]:
        """Handle a page, or a redirect of a seed; returns held links that are now in scope."""
        if parsed.kind is OutcomeKind.PAGE:
            may = link.from_seed or self._shared is not None
            if may and not self.scope.admits(link.url) and self.scope.follows(link.url):
                return self._join(link)
        elif parsed.kind is OutcomeKind.MOVED and link.from_seed:
            target = Url(_row(parsed.row).target)
            if not self.scope.follows(target):
                log.warning(
                    "seed %s redirects to %s, which is out of scope; to crawl it, add it with"
                    " `resume --seed`, or begin with `--follow-seed-redirects`",
                    link.trail[0] if link.trail else link.url,
                    target,
                )
        return []

    def take_in(self) -> list[Link]:
        """Add what other agents added to the scope; returns held links that are now in scope."""
        links: list[Link] = []
        for url in self._shared.take_heard() if self._shared is not None else ():
            if not self.scope.admits(url) and self.scope.follows(url):
                links += self._add(url)
        return links

    def _add(self, url: Url) -> list[Link]:
        self._joined.append(url)
        self._news.append(url)
        self.scope = self.scope.joined([url])
        return self._released(url)

    def _join(self, link: Link) -> list[Link]:
        if self._shared is not None:
            self._shared.publish([link.url])
        released = self._add(link.url)
        if link.from_seed:
            what = {"page": "that page", "host": "its host", "site": "its site"}[self.scope.mode]
            seed = link.trail[0] if link.trail else link.via
            log.info("seed %s redirects to %s: %s is in scope", seed, link.url, what)
        return released

    def note_settled(self, rows: Iterable[bytes]) -> None:
        """Handle outcomes that are durable from the next checkpoint on."""
        if self._unsettled:
            self._note_outcomes(map(_row, rows))

    def _note_outcomes(self, rows: Iterable[OutcomeRow]) -> None:
        """Follow the redirects of seeds; their rows may come in any order."""
        ended = []
        for row in rows:
            if row.depth == 0 or row.url in self._unsettled:
                is_followed = row.kind is OutcomeKind.MOVED and self.scope.follows(Url(row.target))
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

    def news(self) -> ScopeNews | None:
        """Changes that the worker processes have not received yet; None without changes."""
        if not self._news and self._was_open == self.is_open:
            return None
        news = ScopeNews(tuple(self._news), self.is_open)
        self._news.clear()
        self._was_open = self.is_open
        return news

    # -- part of the checkpoint

    def begin(self) -> None:
        if self._is_changed:
            log.warning(CHANGED)

    def seal(self) -> Sealed[ScopeState]:
        return Sealed(ScopeState(self._mark, tuple(self._joined), self.is_open, self._seeds))

    def committed(self) -> None:
        """Nothing to release: the log of held links is another part."""

    def close(self) -> None:
        """Nothing to close."""


def _encode_deterministic(base: Scope) -> bytes:
    return msgspec.json.encode(base, order="deterministic")
