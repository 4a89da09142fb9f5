"""Change detection for polled pages: same, noise or changed.

Only polls are judged. If the bytes differ from the stored version, both versions are compared block by block, as a
reader would see them. If the stored version cannot be read, different bytes are a change. The user's rules apply
to both versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fieldmouse.diff import noise
from fieldmouse.diff.compare import compare
from fieldmouse.diff.text_blocks import EVERYTHING, blocks_of, body_of
from fieldmouse.policy.noise_rules import NoiseRules
from fieldmouse.types.outcome import News, Response, Sighting
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Door, Link

_BITS = 64


def sight(link: Link, response: Response, digest: str, simhash: int) -> Sighting:
    """Return the sighting of a page that was read."""
    changed = digest != link.digest if link.digest else None
    changed_share = difference(link.simhash, simhash) if changed else 0.0
    etag, last_modified = response.header("etag"), response.header("last-modified")
    return Sighting(response.ended_at, digest, simhash, etag, last_modified, changed, changed_share)


def sight_again(link: Link, response: Response, *, gone: bool) -> Sighting:
    """Return the sighting of a page that is unchanged (304) or gone."""
    if gone:
        return Sighting(response.ended_at, changed=bool(link.digest) or None, difference=1.0, gone=True)
    etag = response.header("etag") or link.etag
    last_modified = response.header("last-modified") or link.last_modified
    return Sighting(response.ended_at, link.digest, link.simhash, etag, last_modified, False)


def difference(first: int, second: int) -> float:
    """Estimate the share of words in which two texts differ from their simhashes; 1 if either has none.

    A bit differs with probability (1 - J) / 2 where the texts share J of their shingles.

    >>> difference(0b1011, 0b1000), difference(0, 5)
    (0.0625, 1.0)
    """
    return min(1.0, 2 * (first ^ second).bit_count() / _BITS) if first and second else 1.0


HAD_VERSION = frozenset((OutcomeKind.PAGE, OutcomeKind.UNCHANGED, OutcomeKind.REFUSED))
"""Previous outcomes for which the stored version is the one that a reader saw last."""


class Judgement(NamedTuple):
    """Result of the comparison, for the outcome row of a poll."""

    news: News = News.NONE
    difference: float = 0.0
    withdrawn_at: tuple[float, ...] = ()
    memory: bytes = b""


UNHEARD = Judgement()

Held = Callable[[Link], Response | None]
"""Function that reads the stored response of a link; it returns None if it cannot."""


class Judge:
    def __init__(self, held: Held, *, limit: int, rules: NoiseRules = EVERYTHING):
        """`limit` is the maximum size of a decompressed body in bytes."""
        self._read_held, self._limit, self._rules = held, limit, rules

    def of_page(self, link: Link, response: Response, body: bytes, digest: str, mark: int) -> Judgement:
        """Judge a page that was fetched; `body` is decompressed."""
        if link.was not in HAD_VERSION or (link.was == OutcomeKind.REFUSED and not link.digest):
            return Judgement(News.CHANGED, 1.0)  # there was no page before
        if digest == link.digest:
            return of_same(link)
        if not link.digest:
            return Judgement(memory=link.memory)  # the stored version is unknown
        held = self._read_held(link) if link.warc else None
        if held is None:
            return Judgement(News.CHANGED, difference(link.simhash, mark), memory=link.memory)
        held_body = body_of(held, self._limit)
        rules = self._rules.at(link.url)
        old, new = blocks_of(held, held_body, rules), blocks_of(response, body, rules)
        if old is None or new is None:
            # The same content may have been compressed differently.
            return of_same(link, News.NOISE) if body == held_body else Judgement(News.CHANGED, 1.0)
        comparison = compare(old, new)
        if not comparison.differing:
            return of_same(link, News.NOISE)
        if not rules.learn:
            return Judgement(News.CHANGED, comparison.share())
        lesson = noise.learn(noise.unpacked(link.memory), comparison, response.ended_at)
        return Judgement(
            News.CHANGED if lesson.changed else News.NOISE,
            comparison.share(lesson.memory.noise) if lesson.changed else 0.0,
            lesson.withdrawn,
            noise.packed(lesson.memory),
        )


def of_same(link: Link, news: News = News.SAME) -> Judgement:
    """Result for a page without a visible difference."""
    return Judgement(news, memory=noise.packed(noise.rest(noise.unpacked(link.memory))))


def of_answer(link: Link, kind: OutcomeKind, *, gone: bool = False, moved: bool = False) -> Judgement:
    """Judge any other response: 304, a redirect, a missing page, an error. Only polls are news.

    `moved` means that the redirect is permanent and its target is stored.
    """
    if link.door is not Door.POLLED:
        return UNHEARD
    if kind is OutcomeKind.UNCHANGED:
        return of_same(link)
    if gone and link.was in HAD_VERSION and (bool(link.digest) or link.was == OutcomeKind.PAGE):
        return Judgement(News.GONE, 1.0)
    if kind is OutcomeKind.MOVED and moved:
        return Judgement(News.MOVED, 1.0)
    return UNHEARD
