"""HTTP client, DNS and robots.txt parsing.

The path of one URL: the `resolver` turns its host name into an address, and the `guard` decides whether
that address may be visited. The robots.txt of the host becomes an `Exclusion`, which is checked before
every request. The `fetcher` then connects to exactly that address, over a `connection` that enforces
limits; the response is kept as it was sent, and `encoding` decodes it later, up to a limit. `sitemap`
reads sitemaps and feeds.

Errors of servers are returned as values, never raised, and nothing here decides which URL is visited.
"""
