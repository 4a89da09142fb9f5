"""The web as a crawler meets it.

Follow one URL. Its host's name goes to the `resolver`, which answers with an
address, and the `guard` says whether that address is anyone's business but its
owner's. The host's robots.txt becomes an `exclusion`, asked before every request.
The `fetcher` then asks that very address, over a `connection` that holds the
server to its limits; what comes back is kept as it went over the wire, and
`encoding` unpacks it, later and elsewhere, no further than it may. Where a host
names sitemaps, `sitemap` reads them, and feeds, as far as a sane one goes.

Nothing here raises for what a server did, and nothing here decides what to visit.
"""
