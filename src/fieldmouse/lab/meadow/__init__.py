"""The meadow: a synthetic web that knows the truth about itself.

Follow one request through it. `options` says what was asked for; `plan` turns that into
hosts with sizes, addresses and habits, all from one seed. A request comes in at the
`server` (or, without sockets, at the `fetcher`), which finds the host and asks the
`desk`. The desk reads the path (`paths`: page numbers and back), looks up which version
the page has now (`change`) and whether it is there at all (`fates`), and has the
`press` in `page` put it together from `piece`s that lie ready: `shell`, paragraphs out
of `words`, blocks of links. What hosts say to crawlers is in `signposts`. Nothing is
stored: every page is a pure function of seed and number, so any process can answer for
any host, and `truth` can say beforehand what an obedient crawler will find.
"""

from fieldmouse.lab.meadow.meadow import Meadow
from fieldmouse.lab.meadow.options import MeadowOptions

__all__ = ["Meadow", "MeadowOptions"]
