"""URL scheduling: the path of one URL through the frontier.

A page links to `http://example.org/a`. A worker sends it as a `Request`, and the
crawler passes it to `Frontier.discover`. The **sieve** (`DiskSieve`) reads only a
64-bit hash of the URL. Offers are collected until there are about two thousand, or
until a fetch worker has nothing to do. Then they are sorted and looked up together,
among the keys in memory (`RecentKeySet`) and in sorted files (`SortedRun`). A link whose hash
is known ends here. An unknown one comes out, exactly once.

It joins the **ready queue** (`SievedUrlQueue`), where links wait in the order in which they were
first seen. The **distributor** draws from this queue when the front is narrower than it
should be, and asks the policy whether `example.org` already has something online.
If not, the link goes online. Otherwise it waits in its host's own queue, in the
**virtualizer**, until its host has no URL online and the policy recalls it.

When it goes online it gets a ticket number and a row in the **front log**: from now on
it is owed an outcome. On the **workbench** its host is listed under its address, and
addresses are ordered by the time at which they may be visited again. A fetch worker calls
`Frontier.take` and receives a host visit: the host, the address and a few tickets.
No other worker gets the host or the address until `Frontier.give_back`, which says how long both
must rest. The **host table** (`HostTable`) stores that time, and a promise to wait long is
on disk before the call returns.

The page is fetched, stored and indexed, and its outcome becomes durable. Then `mark_durably_done`
removes the ticket. After a temporary failure, `retry` gives the link a new ticket and a
time before which it must rest.

A URL that is done may be fetched again: `Frontier.poll` puts it online behind the sieve
(`Tickets`), and its outcome is counted separately.

All of this is stored in append-only logs. `seal` notes their lengths at one moment, the
crawler waits for the disk, and once the journal holds the note, `on_checkpoint_committed`
deletes superseded files. After a kill, each log is cut back to the note. Then each URL is in exactly
one of three places (ready, queued, online), or it is done; `locate_url` finds out which.
"""

from __future__ import annotations
