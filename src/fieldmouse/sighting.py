"""Result of one fetch of a page, sent by the indexer to the refresh scheduler."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class News(StrEnum):
    """Difference to the earlier copy, as a reader of the page would judge it."""

    NONE = ""  # nothing was learned: a first fetch, or a failure
    SAME = "same"  # the same bytes, or status 304
    # other bytes, but only where the page differs at every fetch, or outside its readable text
    NOISE = "noise"
    CHANGED = "changed"
    GONE = "gone"
    MOVED = "moved"


class Sighting(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One fetch of a page, compared with the copy that its request described."""

    at: float  # when the answer was complete
    # of the payload, "sha1:BASE32"; for a 304 that of the stored copy, "" for a page that is gone
    digest: str = ""
    simhash: int = 0
    etag: str = ""
    last_modified: str = ""
    changed: bool | None = None  # the bytes differ from the stored copy, or there are none; None: unknown
    difference: float = 0.0  # share of the words that differ, estimated from the simhashes
    gone: bool = False
