"""Comparison of a fetched page with the previous fetch, for the change statistics."""

from __future__ import annotations

from fieldmouse.records import Link, Response
from fieldmouse.sighting import Sighting

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
