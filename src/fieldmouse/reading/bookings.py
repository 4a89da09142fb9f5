"""Outcomes that an agent of a network has, and that another one had booked before it.

Two agents may fetch one URL when the lease of the first ran out in its hands. The board takes the
outcome that comes first; the other agent keeps its copy, and notes that it did not count in
`unbooked.log`, as URL and time. Readers show the newest copy all the same: only an explanation says so.
"""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir import CrawlDir, records

UNBOOKED = "unbooked.log"


class Unbooked(msgspec.Struct, frozen=True, array_like=True):
    """A row of `unbooked.log`: which outcome did not count."""

    url: str
    at: float  # the outcome's


_decode = msgspec.msgpack.Decoder(Unbooked).decode


def unbooked(home: CrawlDir, url: str) -> frozenset[float]:
    """The times of those outcomes of a URL that did not count."""
    path, name = home / UNBOOKED, url.encode()
    if not path.exists():
        return frozenset()
    noted = (_decode(record) for _, record in records(path) if name in record)
    return frozenset(row.at for row in noted if row.url == url)
