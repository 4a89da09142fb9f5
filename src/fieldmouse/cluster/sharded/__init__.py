"""Coordinator sharded over several servers, for crawls that are too large for one.

`founding` fixes the servers when the crawl is created. `shares` maps hosts to servers and adds up answers,
`gathering` calls all servers at once. `board` combines them, `builder` rebuilds what some servers have
lost.
"""

from __future__ import annotations
