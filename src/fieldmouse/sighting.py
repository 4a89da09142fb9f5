"""What one look at a page showed: what the indexer tells of it to whoever decides when to look again."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class News(StrEnum):
    """What a reader of a page would say of one more look at it."""

    NONE = ""  # nothing was learned: a first look, or trouble on the way
    SAME = "same"  # the same bytes, or the server says so
    NOISE = "noise"  # other bytes, but only where the page differs at every look, or where nobody reads
    CHANGED = "changed"
    GONE = "gone"
    MOVED = "moved"


class Sighting(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One look at a page, beside the copy that its link spoke of."""

    at: float  # when the answer was complete
    digest: str = ""  # of the payload, "sha1:BASE32"; that of the copy we hold for a 304, "" for a page gone
    simhash: int = 0
    etag: str = ""
    last_modified: str = ""
    changed: bool | None = None  # other bytes than those of the copy we held, or none; None: it was not known
    difference: float = 0.0  # share of the words in which they differ, as far as their marks tell
    gone: bool = False
