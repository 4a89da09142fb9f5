"""The reading room: all that looks at a crawl and changes nothing.

A crawl directory is written by one process, which holds its lock. Whoever only reads
takes no lock, may come while the crawl runs, and sees the newest checkpoint
(`moment.py`): what lies behind it may yet be undone by a kill. Follow one stored page:
the outcome log has its row (`crawldir/outcomes.py`), the row says in which WARC file and
where its answer lies (`indexer/library.py`), and the answer is read as the crawler read
it (`page.py`). `ReadingRoom` is the door; the command line and other front ends show what it returns.
`ReadingRooms` is the same door to several crawls at once, such as those of a network's agents.
No plug-in and no part of the crawler is loaded for any of this.
"""

from __future__ import annotations

from fieldmouse.reading.page import AnswerHeaders, StoredPage
from fieldmouse.reading.room import ReadingRoom
from fieldmouse.reading.rooms import ReadingRooms

__all__ = ["AnswerHeaders", "ReadingRoom", "ReadingRooms", "StoredPage"]
