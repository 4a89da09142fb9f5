"""The meadow: a synthetic web with a known ground truth.

A request takes this way. `options` holds the settings; `plan` derives hosts with sizes, addresses and habits
from them, all from one seed. The `server` (or, without sockets, the `fetcher`) receives the request, finds
the host and calls the `desk`. The desk parses the path (`paths`), looks up the current version of the page
(`change`) and its location (`fates`), and renders it with `page` from precompressed `piece`s: `shell`,
paragraphs from `words`, blocks of links. `signposts` holds robots.txt and sitemaps. Nothing is stored: every
page is a pure function of seed and number. Any process can answer for any host, and `truth` lists in advance
what a compliant crawler will find.
"""

from __future__ import annotations

from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions

__all__ = ["Meadow", "MeadowOptions"]
