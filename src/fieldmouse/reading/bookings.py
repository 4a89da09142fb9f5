"""Outcomes of a cluster agent that the coordinator rejected because another agent's came first.

Two agents may fetch one URL if the lease of the first expires during the fetch. The coordinator accepts
the first outcome; the other agent keeps its copy and notes the rejection in `unbooked.log`, as URL and
time. Readers still show the newest copy; only an explanation mentions the rejection.
"""

from __future__ import annotations

import msgspec

from fieldmouse.crawldir import CrawlDir, records

UNBOOKED = "unbooked.log"


class Unbooked(msgspec.Struct, frozen=True, array_like=True):
    """Row of `unbooked.log`: outcomes of this URL up to this time (epoch seconds) did not count."""

    url: str
    at: float


_decode = msgspec.msgpack.Decoder(Unbooked).decode


def unbooked(home: CrawlDir, url: str) -> float:
    """Time up to which outcomes of a URL did not count; 0 if all of them count."""
    path, name = home / UNBOOKED, url.encode()
    if not path.exists():
        return 0.0
    noted = (_decode(record) for _, record in records(path) if name in record)
    return max((row.at for row in noted if row.url == url), default=0.0)
