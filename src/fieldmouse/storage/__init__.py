"""Crawl directory: its layout, lock, format and checkpoints.

DIR/
  fieldmouse.toml   settings, editable between runs
  agent.json        identity of the agent, only if the crawl is part of a cluster
  crawl.json        format, secret of the URL hashes, time of creation and version of fieldmouse
  lock              held by the process that crawls
  journal           checkpoints; the newest says how much of every other file counts
  outcomes.log      one row per settled URL
  held.log          requests that wait until the redirects of the seeds are known, in some crawls
  readings.log      statistics, one row per second
  decisions.log     inputs and decisions of the frontier's policy, for `lab replay`
  frontier/         sieve, host queues, front, host states
  archive/          WARC files and their CDXJ
  index/            full-text index, one shard per worker

`directory.py` opens the directory, `fsync.py` makes files in it durable, and `checkpoint.py` describes a
checkpoint and the parts that are sealed into it.
"""

from __future__ import annotations
