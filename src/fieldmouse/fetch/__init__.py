"""Fetch workers: one host, a few URLs, one request after the other.

A fetch worker gets a `HostVisit` from the frontier. It looks up the host's name (`http/ssrf.py`
refuses private addresses), fetches the host's robots.txt if it is not cached, and then requests the URLs
one by one, through the `PolitenessGate`. Each response becomes an `Outcome` and is delivered; unused URLs are given
back. The fetch worker does not decide when the host may be visited again: `policy.politeness` does. Nor
does it decide the cause of a failure: `blame.py` asks the outage detector, which sees the failures of all
fetch workers and recognises an outage of our network.
"""

from __future__ import annotations
