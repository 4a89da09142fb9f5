"""Change detection for polled pages: same, noise or changed.

Only polls are judged. If the bytes differ from the stored version, both versions are compared block by
block, as a reader would see them. If the stored version cannot be read, different bytes are a change. The
user's rules apply to both versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fieldmouse.diff import noise
from fieldmouse.diff.compare import compare
from fieldmouse.diff.text_blocks import NO_RULES, stored_body, text_blocks
from fieldmouse.policy.noise_rules import NoiseRules
from fieldmouse.types.outcome import ContentChange, FetchObservation, Response
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Origin, Request

_BITS = 64


def sighting_of_page(link: Request, response: Response, digest: str, simhash: int) -> FetchObservation:
    """Return the sighting of a page that was read."""
    changed = digest != link.digest if link.digest else None
    changed_share = estimate_difference(link.simhash, simhash) if changed else 0.0
    etag, last_modified = response.header("etag"), response.header("last-modified")
    return FetchObservation(response.ended_at, digest, simhash, etag, last_modified, changed, changed_share)


def sighting_without_body(link: Request, response: Response, *, gone: bool) -> FetchObservation:
    """Return the sighting of a page that is unchanged (304) or gone."""
    if gone:
        return FetchObservation(
            response.ended_at, changed=bool(link.digest) or None, difference=1.0, gone=True
        )
    etag = response.header("etag") or link.etag
    last_modified = response.header("last-modified") or link.last_modified
    return FetchObservation(response.ended_at, link.digest, link.simhash, etag, last_modified, False)


def estimate_difference(first: int, second: int) -> float:
    """Estimate the share of words in which two texts differ from their simhashes; 1 if either has none.

    A bit differs with probability (1 - J) / 2 where the texts share J of their shingles.

    >>> estimate_difference(0b1011, 0b1000), estimate_difference(0, 5)
    (0.0625, 1.0)
    """
    return min(1.0, 2 * (first ^ second).bit_count() / _BITS) if first and second else 1.0


HAD_VERSION = frozenset((OutcomeKind.PAGE, OutcomeKind.UNCHANGED, OutcomeKind.REFUSED))
"""Previous outcomes for which the stored version is the one that a reader saw last."""


class Judgement(NamedTuple):
    """Result of the comparison, for the outcome row of a poll."""

    news: ContentChange = ContentChange.NONE
    difference: float = 0.0
    withdrawn_at: tuple[float, ...] = ()
    memory: bytes = b""


NO_NEWS = Judgement()

StoredResponseReader = Callable[[Request], Response | None]
"""Function that reads the stored response of a link; it returns None if it cannot."""


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
            return Judgement(
                ContentChange.CHANGED, estimate_difference(link.simhash, mark), memory=link.memory
            )
        held_body = stored_body(held, self._limit)
        rules = self._rules.for_page(link.url)
        old, new = text_blocks(held, held_body, rules), text_blocks(response, body, rules)
        if old is None or new is None:
            # The same content may have been compressed differently.
            return (
                judge_unchanged(link, ContentChange.NOISE)
                if body == held_body
                else Judgement(ContentChange.CHANGED, 1.0)
            )
        comparison = compare(old, new)
        if not comparison.differences:
            return judge_unchanged(link, ContentChange.NOISE)
        if not rules.learn:
            return Judgement(ContentChange.CHANGED, comparison.changed_share())
        lesson = noise.learn_difference(noise.unpack_memory(link.memory), comparison, response.ended_at)
        return Judgement(
            ContentChange.CHANGED if lesson.changed else ContentChange.NOISE,
            comparison.changed_share(lesson.memory.noise) if lesson.changed else 0.0,
            lesson.withdrawn,
            noise.pack_memory(lesson.memory),
        )


def judge_unchanged(link: Request, news: ContentChange = ContentChange.SAME) -> Judgement:
    """Result for a page without a visible difference."""
    return Judgement(news, memory=noise.pack_memory(noise.learn_unchanged(noise.unpack_memory(link.memory))))


def judge_other_response(
    link: Request, kind: OutcomeKind, *, gone: bool = False, moved: bool = False
) -> Judgement:
    """Judge any other response: 304, a redirect, a missing page, an error. Only polls are news.

    `moved` means that the redirect is permanent and its target is stored.
    """
    if link.door is not Origin.POLLED:
        return NO_NEWS
    if kind is OutcomeKind.UNCHANGED:
        return judge_unchanged(link)
    if gone and link.was in HAD_VERSION and (bool(link.digest) or link.was == OutcomeKind.PAGE):
        return Judgement(ContentChange.GONE, 1.0)
    if kind is OutcomeKind.MOVED and moved:
        return Judgement(ContentChange.MOVED, 1.0)
    return NO_NEWS
