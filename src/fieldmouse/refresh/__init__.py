"""Known pages are asked again: what is known of each, and which is asked now.

Follow one page. It is stored, and its row goes to the outcome log. The *ledger* reads that log behind the
checkpoints and gives the page a row of its own: some ninety bytes of columns, in which no text is kept, only
where its row stands (`looks` says what a row tells, `fold` what that changes). A *plan* gives every
page a rate; the *scheduler* finds that the page is due, reads its row for URL, validators and the place of
its copy (`polling`), marks it asked, and hands out a link for the frontier's door of polls. The frontier is
sealed at the same moment as the ledger, so a kill neither loses nor repeats a poll. The answer ends as a
row of the outcome log, the ledger comes to it, what it showed is learned, and the page is due again one
interval later.

A sitemap or feed is polled like a page; what it says of others makes their polls come earlier (`signals`).
When a page changed, as its server says, counts where the host proved right in that (`dates`).

The tables are on the disk as a snapshot and a log of changes (`columns`, `tablefiles`). All of it follows
from the outcome log, but for what a `bucket` holds of the budget: if its files are damaged it is made again.
"""

from __future__ import annotations
