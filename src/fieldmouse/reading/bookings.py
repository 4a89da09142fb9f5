"""Outcomes that an agent of a network has, and that another one had booked before it.

Two agents may fetch one URL when the lease of the first ran out in its hands. The board takes the
outcome that comes first; the other agent keeps its copy, and notes that it did not count in
`unbooked.log`, as URL and the moment at which it heard so. Readers show the newest copy all the
same: only an explanation says so.
"""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir import CrawlDir, records

UNBOOKED = "unbooked.log"


class Unbooked(msgspec.Struct, frozen=True, array_like=True):
    """A row of `unbooked.log`: an outcome of this URL, before then, did not count."""

    url: str
    at: float


_decode = msgspec.msgpack.Decoder(Unbooked).decode


def unbooked(home: CrawlDir, url: str) -> float:
    """Until when outcomes of a URL did not count; 0 if all did."""
    path, name = home / UNBOOKED, url.encode()
    if not path.exists():
        return 0.0
    noted = (_decode(record) for _, record in records(path) if name in record)
    return max((row.at for row in noted if row.url == url), default=0.0)
