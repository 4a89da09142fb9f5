"""Coordinator on a Redis-protocol server, shared by agents on many machines.

A call of `RedisCoordinator` (or of `RedisRebuilder`, which rebuilds a lost crawl) becomes script arguments
(`messages`), goes over a `connection`, and is executed by one of the scripts in `lua/`. `replies` reads the
result, and `errors` translates the errors of the server.
"""

from __future__ import annotations
