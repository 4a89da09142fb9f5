"""The meadow: a synthetic web with a known ground truth.

A request takes this path. `MeadowOptions` holds the settings; `MeadowPlan` derives hosts with sizes,
addresses and habits from them, all from one seed. The `server` (or, without sockets, the `MeadowFetcher`)
receives the request, finds the host and calls the `Responder`. The responder parses the path (`paths`),
looks up the current version of the page (`PageChanges`) and its location (`PageLifetimes`), and renders it with
`PageRenderer` from precompressed pieces (`CompressedPiece`): the frame (`PageFrame`), paragraphs from
`words`, blocks of links. `robots_and_sitemaps` holds robots.txt and sitemaps. Nothing is stored: every page
is a pure function of seed and number. Any process can answer for any host, and `truth` lists in advance
what a compliant crawler will find.
"""

from __future__ import annotations
