"""Coordinator on a Redis-protocol server, shared by agents on many machines.

A call of `RedisCoordinator` (or of `RedisRebuilder`, which rebuilds a lost crawl) becomes script arguments
(`messages`, which also reads the replies), goes over a `connection`, which translates the errors of the
server, and is executed by one of the scripts in `lua/`.
"""

from __future__ import annotations
