"""Compiled urn game with its four important strategies, as loops over arrays.

It duplicates the pure player and the policies of `fieldmouse.policy`. It takes numbers from the generator
in the same order and must produce the same game, ball by ball; a test compares both. The copy exists
because it is more than a hundred times as fast, and the tables of the thesis need 10^9 draws.

`advance` can return between any two draws and be called again: Python then enlarges the full ring of the
single queue and continues.
"""

from __future__ import annotations

from numpy.random import Generator

from fieldmouse.compiled import compiled_in_place
from fieldmouse.lab.urn import board as b
from fieldmouse.lab.urn.board import Ints, Longs, Reals, UrnBoard

_NO_HOST = -1

# Results of one attempt to put a ball online.
_DONE, _NOTHING, _NO_ROOM, _CAPPED = range(4)


@compiled_in_place
def advance(rng: Generator, board: UrnBoard) -> None:
    """Play numbers[LEFT] steps, or put numbers[LEFT] first balls online if numbers[FILLING] is set.

    Returns early, with numbers[LEFT] above 0, when the ring is full or the game has ended.
    """
    n, reals, hosts, slots, events = board.numbers, board.reals, board.hosts, board.slots, board.events
    while n[b.LEFT] > 0:
        if n[b.PENDING] == 0:
            if n[b.FILLING] == 0:
                if n[b.DISTINCT] == 0:
                    n[b.STATE] = b.DRY
                    return
                host = slots[int(rng.random() * n[b.DISTINCT])]
                _record(n, events, host, b.LEFT_ONLINE)
                _remove(n, hosts, slots, host)
            n[b.PENDING] = 1
            n[b.ASKED] = 0
        while n[b.BALLS] < n[b.CAPACITY]:
            result = _refill(rng, board)
            if result == _NO_ROOM:
                return
            if result == _CAPPED:
                n[b.STATE] = b.STUCK
                return
            n[b.ASKED] = 0
            if result == _NOTHING or n[b.FILLING] == 1:
                break
        n[b.PENDING] = 0
        n[b.LEFT] -= 1
        n[b.SUM] += n[b.DISTINCT]
        n[b.STEPS] += 1 - n[b.FILLING]
        if n[b.WATCHED] == 1 and reals[b.MASS] > reals[b.CEILING]:
            n[b.STATE] = b.FULL
            return


@compiled_in_place
def store(rng: Generator, board: UrnBoard) -> None:
    """Draw numbers[LEFT] balls and put them offline, before a game begins; may return early as `advance`
    does."""
    n, reals, hosts, _, ring, events, p, below, guide, label, sequence = board
    while n[b.LEFT] > 0:
        if n[b.TAIL] - n[b.HEAD] >= len(ring):
            return
        host = _draw(rng, n, below, guide, label, sequence)
        if host == _NO_HOST:
            n[b.LEFT] = 0
            return
        _record(n, events, host, b.DRAWN_OFFLINE)
        _put_offline(n, reals, hosts, ring, p, host)
        n[b.LEFT] -= 1


@compiled_in_place
def _refill(rng: Generator, board: UrnBoard) -> int:
    """Put one ball online as the strategy decides."""
    n, reals, hosts, slots, ring, events, p, below, guide, label, sequence = board
    while True:
        host = _NO_HOST
        if n[b.NEVER_ASK] == 0:
            host = _recall(n, hosts, ring, False)
        if host == _NO_HOST:
            if n[b.ASKED] >= n[b.CAP]:
                return _CAPPED
            if n[b.TAIL] - n[b.HEAD] >= len(ring):
                return _NO_ROOM
            host = _draw(rng, n, below, guide, label, sequence)
            if host != _NO_HOST:
                n[b.ASKED] += 1
                if n[b.NEVER_ASK] == 1 or _place(n, reals, hosts, host):
                    _record(n, events, host, b.DRAWN_ONLINE)
                    _put_online(n, reals, hosts, slots, host)
                    return _DONE
                _record(n, events, host, b.DRAWN_OFFLINE)
                _put_offline(n, reals, hosts, ring, p, host)
                continue
            host = _recall(n, hosts, ring, True)
            if host == _NO_HOST:
                return _NOTHING
        _record(n, events, host, b.RECALLED)
        _read_offline(n, reals, hosts, p, host)
        _put_online(n, reals, hosts, slots, host)
        return _DONE


@compiled_in_place
def _draw(rng: Generator, n: Longs, below: Reals, guide: Ints, label: Ints, sequence: Ints) -> int:
    if len(sequence) > 0:
        if n[b.DRAWN] == len(sequence):
            return _NO_HOST
        host = int(sequence[n[b.DRAWN]])
        n[b.DRAWN] += 1
    else:
        u = rng.random()
        host = int(guide[int(u * len(guide))])
        while below[host] <= u:
            host += 1
        if n[b.PERMUTED] == 1:
            host = int(label[host])
    n[b.DRAWS] += 1
    return host


@compiled_in_place
def _recall(n: Longs, hosts: Ints, ring: Ints, dry: bool) -> int:
    sentinel = len(hosts) - 1
    oldest = int(hosts[sentinel, b.AFTER])
    if oldest == sentinel:
        oldest = _NO_HOST
    if n[b.KIND] == b.NEUTRAL:
        return oldest if dry else _NO_HOST
    if n[b.KIND] == b.INDEX:
        return oldest
    if n[b.REFUSED] > 0 and not dry:
        return _NO_HOST
    if n[b.OWN_QUEUES] == 1:
        return oldest
    while n[b.HEAD] < n[b.TAIL]:
        host = int(ring[n[b.HEAD] & (len(ring) - 1)])
        if hosts[host, b.GONE] == 0:
            if hosts[host, b.ONLINE] == 0:
                return host
            break
        hosts[host, b.GONE] -= 1
        n[b.HEAD] += 1
    return oldest if dry else _NO_HOST


@compiled_in_place
def _place(n: Longs, reals: Reals, hosts: Ints, host: int) -> bool:
    kind = n[b.KIND]
    if kind == b.NEUTRAL:
        return True
    present, waiting = hosts[host, b.ONLINE], hosts[host, b.BACKLOG]
    if kind == b.INDEX:
        reals[b.TOKENS] -= 1.0
        if present == 0:
            return bool(waiting == 0)
        if reals[b.TOKENS] < 0.0 or (waiting == 0 and present < n[b.DEPTH]):
            return True
        if waiting > 0:
            return bool(n[b.BACKLOG_LIMIT] > 0 and waiting >= n[b.BACKLOG_LIMIT])
        return bool(n[b.INDEX_LIMIT] > 0 and n[b.WAITING] >= n[b.INDEX_LIMIT])
    nowhere = present == 0 and waiting == 0
    if nowhere and (kind == b.GREEDY or n[b.ADAPTED] == 1):
        return True
    if kind == b.ELEPHANTS and hosts[host, b.ELEPHANT] == 0:
        return True
    n[b.REFUSED] += 1
    return bool(n[b.REFUSED] > n[b.DRAW_CAP])


@compiled_in_place
def _put_online(n: Longs, reals: Reals, hosts: Ints, slots: Ints, host: int) -> None:
    """Put a ball online."""
    if hosts[host, b.ONLINE] == 0:
        if hosts[host, b.BACKLOG] > 0:
            _unlink(hosts, host)
        hosts[host, b.SLOT] = n[b.DISTINCT]
        slots[n[b.DISTINCT]] = host
        n[b.DISTINCT] += 1
    hosts[host, b.ONLINE] += 1
    n[b.BALLS] += 1
    n[b.REFUSED] = 0
    n[b.PLACED] += 1
    if n[b.KIND] == b.INDEX:
        reals[b.TOKENS] = min(reals[b.BURST], max(0.0, reals[b.TOKENS]) + reals[b.BUDGET])
    elif n[b.KIND] == b.ELEPHANTS and n[b.PLACED] <= n[b.STOP_SEARCH] and hosts[host, b.ONLINE] > n[b.LIMIT]:
        n[b.NAMED] += 1 - hosts[host, b.ELEPHANT]
        hosts[host, b.ELEPHANT] = 1


@compiled_in_place
def _remove(n: Longs, hosts: Ints, slots: Ints, host: int) -> None:
    """Remove a ball; the last colour of the list takes the place of a colour without balls."""
    hosts[host, b.ONLINE] -= 1
    n[b.BALLS] -= 1
    if hosts[host, b.ONLINE] == 0:
        n[b.DISTINCT] -= 1
        last = slots[n[b.DISTINCT]]
        slots[hosts[host, b.SLOT]] = last
        hosts[last, b.SLOT] = hosts[host, b.SLOT]
        if hosts[host, b.BACKLOG] > 0:
            _link(hosts, host)


@compiled_in_place
def _put_offline(n: Longs, reals: Reals, hosts: Ints, ring: Ints, p: Reals, host: int) -> None:
    """Put a ball offline that was just drawn."""
    _move_head(n, host)
    n[b.APPENDS] += 1
    if hosts[host, b.BACKLOG] == 0:
        n[b.WAITING] += 1
        if n[b.WATCHED] == 1:
            reals[b.MASS] += p[host]
        if hosts[host, b.ONLINE] == 0:
            _link(hosts, host)
    hosts[host, b.BACKLOG] += 1
    n[b.STORED] += 1
    if n[b.ORDERED] == 1:
        ring[n[b.TAIL] & (len(ring) - 1)] = host
        n[b.TAIL] += 1


@compiled_in_place
def _read_offline(n: Longs, reals: Reals, hosts: Ints, p: Reals, host: int) -> None:
    """Read a ball from offline."""
    _move_head(n, host)
    n[b.READS] += 1
    hosts[host, b.BACKLOG] -= 1
    n[b.STORED] -= 1
    if hosts[host, b.BACKLOG] == 0:
        n[b.WAITING] -= 1
        if n[b.WATCHED] == 1:
            reals[b.MASS] -= p[host]
        if hosts[host, b.ONLINE] == 0:
            _unlink(hosts, host)
    hosts[host, b.GONE] += n[b.ORDERED]


@compiled_in_place
def _move_head(n: Longs, host: int) -> None:
    """Move the disk's head if it is at another queue (section 8.2)."""
    queue = 0 if n[b.ORDERED] == 1 else host
    if n[b.LAST] != queue:
        n[b.LAST] = queue
        n[b.MOVES] += 1


@compiled_in_place
def _link(hosts: Ints, host: int) -> None:
    """Append to the list of hosts with a backlog and nothing online."""
    end = len(hosts) - 1
    last = hosts[end, b.BEFORE]
    hosts[last, b.AFTER] = host
    hosts[host, b.BEFORE] = last
    hosts[host, b.AFTER] = end
    hosts[end, b.BEFORE] = host


@compiled_in_place
def _unlink(hosts: Ints, host: int) -> None:
    before, after = hosts[host, b.BEFORE], hosts[host, b.AFTER]
    hosts[before, b.AFTER] = after
    hosts[after, b.BEFORE] = before


@compiled_in_place
def _record(n: Longs, events: Ints, host: int, kind: int) -> None:
    if n[b.EVENTS] < len(events):
        events[n[b.EVENTS]] = host * 4 + kind
        n[b.EVENTS] += 1
