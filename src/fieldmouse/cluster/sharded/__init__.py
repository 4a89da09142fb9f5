"""Coordinator sharded over several servers, for crawls that are too large for one.

`servers` fixes the servers when the crawl is created. `sharding` maps hosts to servers, calls all servers at
once and adds up their answers. `ShardedCoordinator` combines the servers, and `ShardedRebuilder` rebuilds
what some of them have lost.
"""

from __future__ import annotations
