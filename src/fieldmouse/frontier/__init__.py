"""Which URL is visited next: follow one through the house.

A page mentions `http://example.org/a`. The indexer sends it as a `Link`, and the
agent passes it to `Frontier.discover`. Of the link, the **sieve** (`disksieve`)
wants only a 64-bit hash. Offers gather until there are a couple of thousand, or
until a robot goes hungry; then they are sorted and looked up together, among the
keys in memory (`keytable`) and in sorted files (`runs`). If the hash is known, the
link ends here. If not, it comes out, once and never again.

It joins the **ready queue** (`ready`), where links wait in the order they were
first seen. The **distributor** draws from it when the front is narrower than it
should be, and asks the policy: does `example.org` have something online already?
If not, the link goes online. If so, it waits in its host's own queue, in the
**virtualizer**, until its host has run dry online and the policy recalls it.

Going online it gets a ticket number, and a line in the **front log**: from now on
it is owed an outcome. On the **workbench** its host stands under its address, and
the addresses stand in the order in which they may be asked again. A robot calls
`Frontier.take` and leaves with an `Errand`: the host, the address, a few tickets.
Nobody else gets either until `give_back`, which says how long both want quiet.
The **host table** (`hosts`) remembers that, and a promise to wait long is on disk
before the call returns.

The page is fetched, stored and indexed; its outcome is durable; `done` strikes the
ticket out. Had the fetch failed for a passing reason, `again` would have given the
link a new ticket, and a time before which it must rest.

A URL that is done may be asked again: `Frontier.poll` puts it online behind the sieve
(`tickets`), and its outcome stands in other books. And a host may leave for another
crawl, or come from one, with all its URLs and what is known of it (`exchange`): what
belongs to a host that is not here waits in the **outbox** until a **parcel** takes it.

All of this is append-only logs. `seal` notes their lengths at one moment, the agent
waits for the disk, and when the journal holds the note, `committed` lets superseded
files go. After a kill, each log is cut back to the note. Then our URL is in exactly
one of three places (ready, queued, online), or it is done; `lookout` says which.
"""

from fieldmouse.frontier.frontier import Frontier
from fieldmouse.frontier.moment import FrontierState, sealed_frontier
from fieldmouse.frontier.opening import open_frontier

__all__ = ["Frontier", "FrontierState", "open_frontier", "sealed_frontier"]
