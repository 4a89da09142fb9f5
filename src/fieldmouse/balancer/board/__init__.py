"""Coordinator of a crawl on many machines: its interface and three implementations.

`contract` is the interface for agents (`pagelimit` is the part that counts pages), `rebuilding` the
interface for building a lost coordinator again. `refusals` has the errors of both. The coordinator stores
URLs as `rows`, many of them in a block (`blocks`). The URLs of a lost agent are made from its
acknowledgements (`again`).

Read the one in `memory` first: it has the rules in the plainest code. The one in `server` has them as Lua
scripts on Redis. The one in `spread` shards a crawl over other coordinators of any kind. The three depend
on the modules beside this page and not on each other.
"""
