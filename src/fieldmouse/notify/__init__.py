"""Who is told when a page is new, changed, gone or moved, and how it is made sure that he is.

Follow one change. A poll shows that a page has changed, and its row goes into the outcome log. When
a checkpoint has made that row durable, the `Notifier` (a part of the crawl, see
`crawldir/parts.py`) wakes a `Courier` for each channel: command, webhook, mail, feed. The courier
reads the log from where it stands, makes of each row what there is to tell (`crawldir/news.py`),
leaves out what is not wanted, and hands the rest to its channel as a `Notice`. If that went well it
moves on; if not, it tries again, later and later.

Nothing waits in memory or in a queue on the disk: what was not told is what lies in the log behind
the courier's place, and that place is in the checkpoint. So nothing is lost, and a kill repeats
what was told since the last checkpoint. That is why everything told has an id that is the same each
time: the id of the change, or, where several go out together, a name made of theirs. For that to
hold, a notice is the same notice after a kill: one that is smaller than it might be is sent only
when a checkpoint knows where it ends.
"""
