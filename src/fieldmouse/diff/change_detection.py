"""Change detection for polled pages (same, noise or changed), with learned noise rules.

A difference is a change until its place has differed on three polls in a row. Then it is noise, and
changes reported on the two polls before are withdrawn if they consist of noise only. A noisy place that
stays the same on three polls in a row is no longer noise.

The learned state is stored with the page in less than a kilobyte (`memory`). If it cannot be decoded,
learning starts again.

Only polls are judged. If the bytes differ from the stored version, both versions are compared block by
block, as a reader would see them. If the stored version cannot be read, different bytes are a change. The
user's rules apply to both versions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fieldmouse.diff.compare import DiffStat, compare_versions
from fieldmouse.diff.text_blocks import NO_RULES, decoded_body, text_blocks
from fieldmouse.policy.noise_rules import NoiseRules
from fieldmouse.types.outcome import ContentChange, PageComparison, Response
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import FrontierEntry, Request

POLLS_TO_LEARN = 3  # polls in a row
MAX_PLACES = 80  # places remembered for one page
MAX_PLACES_PER_CHANGE = 40  # places of one reported change; a change with more is never withdrawn

_VERSION = 1
_PLACE = struct.Struct("<IB")  # place; polls in a row on which it differed, and on which it did not
_TELLING = struct.Struct("<dBB")  # time; polls since then; number of places


class UnconfirmedChange(NamedTuple):
    """A reported change that may still turn out to be noise."""

    at: float
    polls_ago: int  # polls
    places: frozenset[int]


class NoiseMemory(NamedTuple):
    polls_differing: dict[int, int]  # polls in a row, at most `POLLS_TO_LEARN`, by place
    polls_unchanged: dict[int, int]  # places that are noise: polls in a row without a difference
    reported_changes: tuple[UnconfirmedChange, ...] = ()

    @property
    def noise_places(self) -> frozenset[int]:
        return frozenset(place for place, times in self.polls_differing.items() if times >= POLLS_TO_LEARN)


class NoiseDecision(NamedTuple):
    """Result of one more poll."""

    memory: NoiseMemory
    changed: bool  # there is a change to report
    withdrawn: tuple[float, ...] = ()  # `at` of the reported changes that were only noise


EMPTY_MEMORY = NoiseMemory({}, {})


def learn_difference(memory: NoiseMemory, seen: DiffStat, at: float) -> NoiseDecision:
    """Update the memory by one poll; `seen` is the comparison with the previous version."""
    places = {item.place for item in seen.differences}
    memory = _after_poll(memory, places - {0})
    noise = memory.noise_places
    reported = places - noise
    withdrawn = [item for item in memory.reported_changes if item.places <= noise]
    reports = [item for item in memory.reported_changes if item not in withdrawn]
    if reported and 0 not in reported and len(reported) <= MAX_PLACES_PER_CHANGE:
        reports.append(UnconfirmedChange(at, 0, frozenset(reported)))
    after = memory._replace(reported_changes=tuple(reports))
    return NoiseDecision(after, bool(reported), tuple(item.at for item in withdrawn))


def learn_unchanged(memory: NoiseMemory) -> NoiseMemory:
    """Update the memory by one poll on which the page was the same."""
    return _after_poll(memory, frozenset())


def _after_poll(memory: NoiseMemory, places: Iterable[int]) -> NoiseMemory:
    """Update the memory by one poll on which exactly `places` differed."""
    differed = {place: min(POLLS_TO_LEARN, memory.polls_differing.get(place, 0) + 1) for place in places}
    stood = {}
    for place in memory.noise_places:
        if place not in differed and memory.polls_unchanged.get(place, 0) + 1 < POLLS_TO_LEARN:
            differed[place] = POLLS_TO_LEARN
            stood[place] = memory.polls_unchanged.get(place, 0) + 1
    reports = (
        change._replace(polls_ago=change.polls_ago + 1)
        for change in memory.reported_changes
        if change.polls_ago + 1 < POLLS_TO_LEARN
    )
    return NoiseMemory(differed, stood, tuple(reports))


# -- serialization


def pack_memory(memory: NoiseMemory) -> bytes:
    """Serialize a memory, an empty one as b""; at most about 900 bytes.

    Beyond `MAX_PLACES` the places with the longest runs of differences are kept.
    """
    if not memory.polls_differing and not memory.reported_changes:
        return b""
    kept = sorted(memory.polls_differing.items(), key=lambda place: -place[1])[:MAX_PLACES]
    parts = [bytes((_VERSION, len(kept), len(memory.reported_changes)))]
    parts += [_PLACE.pack(place, times << 4 | memory.polls_unchanged.get(place, 0)) for place, times in kept]
    for change in memory.reported_changes:
        parts.append(_TELLING.pack(change.at, change.polls_ago, len(change.places)))
        parts += [place.to_bytes(4, "little") for place in sorted(change.places)]
    return b"".join(parts)


def unpack_memory(raw: bytes) -> NoiseMemory:
    """Restore a memory written by `pack_memory`; `EMPTY_MEMORY` for any other bytes."""
    try:
        version, places, reports = raw[:3] or (0, 0, 0)
        if version != _VERSION:
            return EMPTY_MEMORY
        at, differed, stood = 3, {}, {}
        for place, times in _PLACE.iter_unpack(raw[at : at + places * _PLACE.size]):
            differed[place] = times >> 4
            if times & 15:
                stood[place] = times & 15
        at += places * _PLACE.size
        reported = []
        for _ in range(reports):
            when, ago, many = _TELLING.unpack_from(raw, at)
            at += _TELLING.size
            reported.append(UnconfirmedChange(when, ago, frozenset(struct.unpack_from(f"<{many}I", raw, at))))
            at += 4 * many
    except (struct.error, ValueError):
        return EMPTY_MEMORY
    return NoiseMemory(differed, stood, tuple(reported)) if at == len(raw) else EMPTY_MEMORY


_BITS = 64


def observation_of_page(link: Request, response: Response, digest: str, simhash: int) -> PageComparison:
    """Return the sighting of a page that was read."""
    changed = digest != link.digest if link.digest else None
    changed_share = estimate_difference(link.simhash, simhash) if changed else 0.0
    etag, last_modified = response.header("etag"), response.header("last-modified")
    return PageComparison(response.ended_at, digest, simhash, etag, last_modified, changed, changed_share)


def observation_without_body(link: Request, response: Response, *, gone: bool) -> PageComparison:
    """Return the sighting of a page that is unchanged (304) or gone."""
    if gone:
        return PageComparison(response.ended_at, changed=bool(link.digest) or None, difference=1.0, gone=True)
    etag = response.header("etag") or link.etag
    last_modified = response.header("last-modified") or link.last_modified
    return PageComparison(response.ended_at, link.digest, link.simhash, etag, last_modified, False)


def estimate_difference(first: int, second: int) -> float:
    """Estimate the share of words in which two texts differ from their simhashes; 1 if either has none.

    A bit differs with probability (1 - J) / 2 where the texts share J of their shingles.

    >>> estimate_difference(0b1011, 0b1000), estimate_difference(0, 5)
    (0.0625, 1.0)
    """
    return min(1.0, 2 * (first ^ second).bit_count() / _BITS) if first and second else 1.0


#: Previous outcomes for which the stored version is the one that a reader saw last.
HAD_VERSION = frozenset((OutcomeKind.PAGE, OutcomeKind.UNCHANGED, OutcomeKind.REFUSED))


class Judgement(NamedTuple):
    """Result of the comparison, for the outcome row of a poll."""

    news: ContentChange = ContentChange.NONE
    difference: float = 0.0
    withdrawn_at: tuple[float, ...] = ()
    memory: bytes = b""


NO_NEWS = Judgement()

#: Function that reads the stored response of a link; it returns None if it cannot.
StoredResponseReader = Callable[[Request], Response | None]


class ChangeJudge:
    def __init__(self, held: StoredResponseReader, *, limit: int, rules: NoiseRules = NO_RULES):
        """`limit` is the maximum size of a decompressed body in bytes."""
        self._read_held, self._limit, self._rules = held, limit, rules

    def judge_page(self, link: Request, response: Response, body: bytes, digest: str, mark: int) -> Judgement:
        """Judge a page that was fetched; `body` is decompressed."""
        if link.was not in HAD_VERSION or (link.was == OutcomeKind.REFUSED and not link.digest):
            return Judgement(ContentChange.CHANGED, 1.0)  # there was no page before
        if digest == link.digest:
            return judge_unchanged(link)
        if not link.digest:
            return Judgement(memory=link.memory)  # the stored version is unknown
        held = self._read_held(link) if link.warc else None
        if held is None:
            return Judgement(ContentChange.CHANGED, estimate_difference(link.simhash, mark), memory=link.memory)
        held_body = decoded_body(held, self._limit)
        rules = self._rules.for_page(link.url)
        old, new = text_blocks(held, held_body, rules), text_blocks(response, body, rules)
        if old is None or new is None:
            # The same content may have been compressed differently.
            is_same = body == held_body
            return judge_unchanged(link, ContentChange.NOISE) if is_same else Judgement(ContentChange.CHANGED, 1.0)
        comparison = compare_versions(old, new)
        if not comparison.differences:
            return judge_unchanged(link, ContentChange.NOISE)
        if not rules.learn:
            return Judgement(ContentChange.CHANGED, comparison.changed_share())
        lesson = learn_difference(unpack_memory(link.memory), comparison, response.ended_at)
        return Judgement(
            ContentChange.CHANGED if lesson.changed else ContentChange.NOISE,
            comparison.changed_share(lesson.memory.noise_places) if lesson.changed else 0.0,
            lesson.withdrawn,
            pack_memory(lesson.memory),
        )


def judge_unchanged(link: Request, news: ContentChange = ContentChange.SAME) -> Judgement:
    """Result for a page without a visible difference."""
    return Judgement(news, memory=pack_memory(learn_unchanged(unpack_memory(link.memory))))


def judge_other_response(link: Request, kind: OutcomeKind, *, gone: bool = False, moved: bool = False) -> Judgement:
    """Judge any other response: 304, a redirect, a missing page, an error. Only polls are news.

    `moved` means that the redirect is permanent and its target is stored.
    """
    if link.door is not FrontierEntry.POLLED:
        return NO_NEWS
    if kind is OutcomeKind.UNCHANGED:
        return judge_unchanged(link)
    if gone and link.was in HAD_VERSION and (bool(link.digest) or link.was == OutcomeKind.PAGE):
        return Judgement(ContentChange.GONE, 1.0)
    if kind is OutcomeKind.MOVED and moved:
        return Judgement(ContentChange.MOVED, 1.0)
    return NO_NEWS
