"""The urn game and its four serious strategies as loops over arrays.

It stands beside the pure player and the policies of `fieldmouse.policy`, takes
numbers from the generator in the same order, and must come to the same game, ball
by ball; a test plays both. It is written a second time for one reason: it is more
than a hundred times as fast, and the tables of the thesis need 10^9 draws.

`advance` may be left and entered again between any two draws: Python widens the
ring of the single queue when it is full, and goes on.
"""

from __future__ import annotations

from numpy.random import Generator

from fieldmouse.lab.urn.board import (
    ADAPTED,
    AFTER,
    APPENDS,
    ASKED,
    BACKLOG,
    BACKLOG_LIMIT,
    BALLS,
    BEFORE,
    BUDGET,
    BURST,
    CAP,
    CAPACITY,
    CEILING,
    DEPTH,
    DISTINCT,
    DRAW_CAP,
    DRAWN,
    DRAWN_OFFLINE,
    DRAWN_ONLINE,
    DRAWS,
    DRY,
    ELEPHANT,
    ELEPHANTS,
    EVENTS,
    FILLING,
    FULL,
    GONE,
    GREEDY,
    HEAD,
    INDEX,
    INDEX_LIMIT,
    KIND,
    LAST,
    LEFT,
    LEFT_ONLINE,
    LIMIT,
    MASS,
    MOVES,
    NAMED,
    NEUTRAL,
    NEVER_ASK,
    ONLINE,
    ORDERED,
    OWN_QUEUES,
    PENDING,
    PERMUTED,
    PLACED,
    READS,
    RECALLED,
    REFUSED,
    SLOT,
    STATE,
    STEPS,
    STOP_SEARCH,
    STORED,
    STUCK,
    SUM,
    TAIL,
    TOKENS,
    WAITING,
    WATCHED,
    Board,
    Ints,
    Longs,
    Reals,
)  # fmt: skip
from fieldmouse.queueing.compiled import compiled

_NOBODY = -1

# What came of one attempt to put a ball online.
_DONE, _NOTHING, _NO_ROOM, _CAPPED = range(4)


@compiled
def advance(rng: Generator, board: Board) -> None:
    """Play numbers[LEFT] steps, or put so many first balls online if numbers[FILLING].

    It comes back early, with numbers[LEFT] above 0, when the ring is full or the game has ended.
    """
    n, reals, hosts, slots, ring, events, p, below, guide, label, sequence = board
    while n[LEFT] > 0:
        if n[PENDING] == 0:
            if n[FILLING] == 0:
                if n[DISTINCT] == 0:
                    n[STATE] = DRY
                    return
                host = slots[int(rng.random() * n[DISTINCT])]
                _note(n, events, host, LEFT_ONLINE)
                _leave(n, hosts, slots, host)
            n[PENDING] = 1
            n[ASKED] = 0
        while n[BALLS] < n[CAPACITY]:
            came = _refill(rng, n, reals, hosts, slots, ring, events, p, below, guide, label, sequence)
            if came == _NO_ROOM:
                return
            if came == _CAPPED:
                n[STATE] = STUCK
                return
            n[ASKED] = 0
            if came == _NOTHING or n[FILLING] == 1:
                break
        n[PENDING] = 0
        n[LEFT] -= 1
        n[SUM] += n[DISTINCT]
        n[STEPS] += 1 - n[FILLING]
        if n[WATCHED] == 1 and reals[MASS] > reals[CEILING]:
            n[STATE] = FULL
            return


@compiled
def store(rng: Generator, board: Board) -> None:
    """Draw numbers[LEFT] balls and put them offline, before a game begins; may leave as `advance` does."""
    n, reals, hosts, _, ring, events, p, below, guide, label, sequence = board
    while n[LEFT] > 0:
        if n[TAIL] - n[HEAD] >= len(ring):
            return
        host = _draw(rng, n, below, guide, label, sequence)
        if host == _NOBODY:
            n[LEFT] = 0
            return
        _note(n, events, host, DRAWN_OFFLINE)
        _store(n, reals, hosts, ring, p, host)
        n[LEFT] -= 1


@compiled
def _refill(
    rng: Generator, n: Longs, reals: Reals, hosts: Ints, slots: Ints, ring: Ints, events: Ints, p: Reals,
    below: Reals, guide: Ints, label: Ints, sequence: Ints,
) -> int:  # fmt: skip
    """Put one ball online as the strategy says."""
    while True:
        host = _NOBODY
        if n[NEVER_ASK] == 0:
            host = _recall(n, hosts, ring, False)
        if host == _NOBODY:
            if n[ASKED] >= n[CAP]:
                return _CAPPED
            if n[TAIL] - n[HEAD] >= len(ring):
                return _NO_ROOM
            host = _draw(rng, n, below, guide, label, sequence)
            if host != _NOBODY:
                n[ASKED] += 1
                if n[NEVER_ASK] == 1 or _place(n, reals, hosts, host):
                    _note(n, events, host, DRAWN_ONLINE)
                    _come(n, reals, hosts, slots, host)
                    return _DONE
                _note(n, events, host, DRAWN_OFFLINE)
                _store(n, reals, hosts, ring, p, host)
                continue
            host = _recall(n, hosts, ring, True)
            if host == _NOBODY:
                return _NOTHING
        _note(n, events, host, RECALLED)
        _fetch(n, reals, hosts, p, host)
        _come(n, reals, hosts, slots, host)
        return _DONE


@compiled
def _draw(rng: Generator, n: Longs, below: Reals, guide: Ints, label: Ints, sequence: Ints) -> int:
    if len(sequence) > 0:
        if n[DRAWN] == len(sequence):
            return _NOBODY
        host = int(sequence[n[DRAWN]])
        n[DRAWN] += 1
    else:
        u = rng.random()
        host = int(guide[int(u * len(guide))])
        while below[host] <= u:
            host += 1
        if n[PERMUTED] == 1:
            host = int(label[host])
    n[DRAWS] += 1
    return host


@compiled
def _recall(n: Longs, hosts: Ints, ring: Ints, dry: bool) -> int:
    nobody = len(hosts) - 1
    oldest = int(hosts[nobody, AFTER])
    if oldest == nobody:
        oldest = _NOBODY
    if n[KIND] == NEUTRAL:
        return oldest if dry else _NOBODY
    if n[KIND] == INDEX:
        return oldest
    if n[REFUSED] > 0 and not dry:
        return _NOBODY
    if n[OWN_QUEUES] == 1:
        return oldest
    while n[HEAD] < n[TAIL]:
        host = int(ring[n[HEAD] & (len(ring) - 1)])
        if hosts[host, GONE] == 0:
            if hosts[host, ONLINE] == 0:
                return host
            break
        hosts[host, GONE] -= 1
        n[HEAD] += 1
    return oldest if dry else _NOBODY


@compiled
def _place(n: Longs, reals: Reals, hosts: Ints, host: int) -> bool:
    kind = n[KIND]
    if kind == NEUTRAL:
        return True
    present, waiting = hosts[host, ONLINE], hosts[host, BACKLOG]
    if kind == INDEX:
        reals[TOKENS] -= 1.0
        if present == 0:
            return bool(waiting == 0)
        if reals[TOKENS] < 0.0 or (waiting == 0 and present < n[DEPTH]):
            return True
        if waiting > 0:
            return bool(n[BACKLOG_LIMIT] > 0 and waiting >= n[BACKLOG_LIMIT])
        return bool(n[INDEX_LIMIT] > 0 and n[WAITING] >= n[INDEX_LIMIT])
    nowhere = present == 0 and waiting == 0
    if nowhere and (kind == GREEDY or n[ADAPTED] == 1):
        return True
    if kind == ELEPHANTS and hosts[host, ELEPHANT] == 0:
        return True
    n[REFUSED] += 1
    return bool(n[REFUSED] > n[DRAW_CAP])


@compiled
def _come(n: Longs, reals: Reals, hosts: Ints, slots: Ints, host: int) -> None:
    """A ball goes online."""
    if hosts[host, ONLINE] == 0:
        if hosts[host, BACKLOG] > 0:
            _unlink(hosts, host)
        hosts[host, SLOT] = n[DISTINCT]
        slots[n[DISTINCT]] = host
        n[DISTINCT] += 1
    hosts[host, ONLINE] += 1
    n[BALLS] += 1
    n[REFUSED] = 0
    n[PLACED] += 1
    if n[KIND] == INDEX:
        reals[TOKENS] = min(reals[BURST], max(0.0, reals[TOKENS]) + reals[BUDGET])
    elif n[KIND] == ELEPHANTS and n[PLACED] <= n[STOP_SEARCH] and hosts[host, ONLINE] > n[LIMIT]:
        n[NAMED] += 1 - hosts[host, ELEPHANT]
        hosts[host, ELEPHANT] = 1


@compiled
def _leave(n: Longs, hosts: Ints, slots: Ints, host: int) -> None:
    """A ball leaves the game; the last colour of the list takes the place of one that is used up."""
    hosts[host, ONLINE] -= 1
    n[BALLS] -= 1
    if hosts[host, ONLINE] == 0:
        n[DISTINCT] -= 1
        last = slots[n[DISTINCT]]
        slots[hosts[host, SLOT]] = last
        hosts[last, SLOT] = hosts[host, SLOT]
        if hosts[host, BACKLOG] > 0:
            _link(hosts, host)


@compiled
def _store(n: Longs, reals: Reals, hosts: Ints, ring: Ints, p: Reals, host: int) -> None:
    """A ball just drawn goes offline."""
    _touch(n, host)
    n[APPENDS] += 1
    if hosts[host, BACKLOG] == 0:
        n[WAITING] += 1
        if n[WATCHED] == 1:
            reals[MASS] += p[host]
        if hosts[host, ONLINE] == 0:
            _link(hosts, host)
    hosts[host, BACKLOG] += 1
    n[STORED] += 1
    if n[ORDERED] == 1:
        ring[n[TAIL] & (len(ring) - 1)] = host
        n[TAIL] += 1


@compiled
def _fetch(n: Longs, reals: Reals, hosts: Ints, p: Reals, host: int) -> None:
    """A ball is read from offline."""
    _touch(n, host)
    n[READS] += 1
    hosts[host, BACKLOG] -= 1
    n[STORED] -= 1
    if hosts[host, BACKLOG] == 0:
        n[WAITING] -= 1
        if n[WATCHED] == 1:
            reals[MASS] -= p[host]
        if hosts[host, ONLINE] == 0:
            _unlink(hosts, host)
    hosts[host, GONE] += n[ORDERED]


@compiled
def _touch(n: Longs, host: int) -> None:
    """Move the disk's head, if this queue is not the one it is at (section 8.2)."""
    queue = 0 if n[ORDERED] == 1 else host
    if n[LAST] != queue:
        n[LAST] = queue
        n[MOVES] += 1


@compiled
def _link(hosts: Ints, host: int) -> None:
    """Add to the end of those with a backlog and nothing online."""
    end = len(hosts) - 1
    last = hosts[end, BEFORE]
    hosts[last, AFTER] = host
    hosts[host, BEFORE] = last
    hosts[host, AFTER] = end
    hosts[end, BEFORE] = host


@compiled
def _unlink(hosts: Ints, host: int) -> None:
    before, after = hosts[host, BEFORE], hosts[host, AFTER]
    hosts[before, AFTER] = after
    hosts[after, BEFORE] = before


@compiled
def _note(n: Longs, events: Ints, host: int, kind: int) -> None:
    if n[EVENTS] < len(events):
        events[n[EVENTS]] = host * 4 + kind
        n[EVENTS] += 1
