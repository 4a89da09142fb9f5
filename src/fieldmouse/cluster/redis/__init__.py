"""Coordinator on a Redis-protocol server, shared by agents on many machines.

A call of `board` (or of `builder`, which rebuilds a lost crawl) becomes script arguments (`messages`),
goes over a connection (`connect`), and is executed by one of the `scripts` in `lua/`.
"""

from __future__ import annotations
