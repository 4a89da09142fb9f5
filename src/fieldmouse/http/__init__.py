"""HTTP client, DNS and SSRF protection.

The path of one URL: the resolver in `dns` turns its host name into an address, and `ssrf` decides whether
that address may be visited. The fetcher in `client` connects to exactly that address, over a `connection`
that enforces limits; the response is kept as it was sent, and `decoding` decodes it later, up to a limit.

Errors of servers are returned as values, never raised, and nothing here decides which URL is visited.
"""

from __future__ import annotations
