"""Compiled urn game with its four important strategies, as loops over arrays.

It duplicates the pure player and the policies of `fieldmouse.policy`. It takes numbers from the generator
in the same order and must produce the same game, ball by ball; a test compares both. The copy exists
because it is more than a hundred times as fast, and the tables of the thesis need 10^9 draws.

A ball has no identity beyond its colour. A host's queue is therefore a count, and the single queue of
Algorithm 12 is a ring of colours. The fields of a host are adjacent, 32 bytes in all: a draw touches one
cache line, and a game with ten million hosts fits in half a gigabyte.

`advance` can return between any two draws and be called again: Python then enlarges the full ring of the
single queue and continues.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from fieldmouse.jit import jit_without_refcounts
from fieldmouse.policy.distribution.one_place_per_host import OnePlacePerHostPolicy
from fieldmouse.policy.distribution.registry import DistributionPolicy
from fieldmouse.policy.distribution.single_queue_policies import (
    GreedyAbsentHostsPolicy,
    MiceAndElephants,
    NeutralPolicy,
)

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

# Kinds of strategy that the kernel plays.
NEUTRAL, GREEDY, ELEPHANTS, INDEX = range(4)

# States of a game, in numbers[STATE].
PLAYING, STUCK, FULL, DRY = range(4)

# Places in `numbers`: first the rules, which are constant during a game, then the state, then the counts.
KIND, CAPACITY, LIMIT, STOP_SEARCH, ORDERED, OWN_QUEUES, ADAPTED, DRAW_CAP, DEPTH = range(9)
BACKLOG_LIMIT, INDEX_LIMIT, CAP, PERMUTED, WATCHED = range(9, 14)
STATE, LEFT, FILLING, PENDING, ASKED, NEVER_ASK, DISTINCT, BALLS, STORED, WAITING = range(14, 24)
NAMED, REFUSED, PLACED, LAST, HEAD, TAIL, DRAWN = range(24, 31)
SUM, STEPS, DRAWS, APPENDS, READS, MOVES, EVENTS, NUMBERS = range(31, 39)

# Places in `reals`.
TOKENS, BUDGET, BURST, MASS, CEILING, REALS = range(6)

# Columns of `hosts`. SLOT is the host's place in the list of colours online. AFTER and BEFORE link the hosts
# with a backlog and nothing online, oldest first; the extra last row is head and tail of the list. GONE
# counts entries of the single queue that were recalled out of turn.
ONLINE, SLOT, BACKLOG, AFTER, BEFORE, ELEPHANT, GONE, COLUMNS = range(8)

NO_END = 1 << 62

# Kinds of event; an event is colour * 4 + kind.
LEFT_ONLINE, DRAWN_ONLINE, DRAWN_OFFLINE, RECALLED = range(4)


class KernelState(NamedTuple):
    """State of one game: numbers, hosts, colours online, the single queue, and the source."""

    numbers: Longs
    reals: Reals
    hosts: Ints
    slots: Ints
    ring: Ints
    events: Ints
    p: Reals
    below: Reals
    guide: Ints
    label: Ints
    sequence: Ints


class KernelRules(NamedTuple):
    """Parameters of a policy in the form that the kernel reads."""

    kind: int
    ordered: bool = False
    limit: int = 0
    stop_search: int = NO_END
    own_queues: bool = False
    adapted: bool = False
    draw_cap: int = NO_END
    depth: int = 1
    backlog_limit: int = 0
    index_limit: int = 0
    budget: float = 0.0
    burst: float = 0.0
    elephants: frozenset[int] = frozenset()


def kernel_rules(policy: DistributionPolicy[int]) -> KernelRules | None:
    """Return the kernel's parameters for this policy, or None if the kernel cannot play it.

    Subclasses return None, because a subclass may override anything.
    """
    kind: type = type(policy)
    if kind is NeutralPolicy:
        return KernelRules(NEUTRAL)
    if isinstance(policy, GreedyAbsentHostsPolicy) and kind is GreedyAbsentHostsPolicy:
        return KernelRules(GREEDY, ordered=True, draw_cap=policy.draw_cap)
    if isinstance(policy, MiceAndElephants) and kind is MiceAndElephants:
        return KernelRules(
            ELEPHANTS,
            ordered=policy.ordered,
            limit=policy.limit,
            stop_search=NO_END if policy.stop_search is None else policy.stop_search,
            own_queues=policy.own_queues,
            adapted=policy.adapted,
            draw_cap=policy.draw_cap,
            elephants=frozenset(policy.elephants),
        )
    if isinstance(policy, OnePlacePerHostPolicy) and kind is OnePlacePerHostPolicy:
        return KernelRules(
            INDEX,
            depth=policy.depth,
            backlog_limit=policy.backlog_limit,
            index_limit=policy.index_limit,
            budget=policy.draws,
            burst=policy.burst,
        )
    return None


_NO_HOST = -1

# Results of one attempt to put a ball online.
_DONE, _NOTHING, _NO_ROOM, _CAPPED = range(4)


@jit_without_refcounts
def advance(rng: Generator, board: KernelState) -> None:
    """Play numbers[LEFT] steps, or put numbers[LEFT] first balls online if numbers[FILLING] is set.

    Returns early, with numbers[LEFT] above 0, when the ring is full or the game has ended.
    """
    n, reals, hosts, slots, events = board.numbers, board.reals, board.hosts, board.slots, board.events
    while n[LEFT] > 0:
        if n[PENDING] == 0:
            if n[FILLING] == 0:
                if n[DISTINCT] == 0:
                    n[STATE] = DRY
                    return
                host = slots[int(rng.random() * n[DISTINCT])]
                _record(n, events, host, LEFT_ONLINE)
                _remove(n, hosts, slots, host)
            n[PENDING] = 1
            n[ASKED] = 0
        while n[BALLS] < n[CAPACITY]:
            result = _refill(rng, board)
            if result == _NO_ROOM:
                return
            if result == _CAPPED:
                n[STATE] = STUCK
                return
            n[ASKED] = 0
            if result == _NOTHING or n[FILLING] == 1:
                break
        n[PENDING] = 0
        n[LEFT] -= 1
        n[SUM] += n[DISTINCT]
        n[STEPS] += 1 - n[FILLING]
        if n[WATCHED] == 1 and reals[MASS] > reals[CEILING]:
            n[STATE] = FULL
            return


@jit_without_refcounts
def store(rng: Generator, board: KernelState) -> None:
    """Draw numbers[LEFT] balls and put them offline, before a game begins; may return early as `advance`
    does."""
    n, reals, hosts, _, ring, events, p, below, guide, label, sequence = board
    while n[LEFT] > 0:
        if n[TAIL] - n[HEAD] >= len(ring):
            return
        host = _draw(rng, n, below, guide, label, sequence)
        if host == _NO_HOST:
            n[LEFT] = 0
            return
        _record(n, events, host, DRAWN_OFFLINE)
        _put_offline(n, reals, hosts, ring, p, host)
        n[LEFT] -= 1


@jit_without_refcounts
def _refill(rng: Generator, board: KernelState) -> int:
    """Put one ball online as the strategy decides."""
    n, reals, hosts, slots, ring, events, p, below, guide, label, sequence = board
    while True:
        host = _NO_HOST
        if n[NEVER_ASK] == 0:
            host = _recall(n, hosts, ring, False)
        if host == _NO_HOST:
            if n[ASKED] >= n[CAP]:
                return _CAPPED
            if n[TAIL] - n[HEAD] >= len(ring):
                return _NO_ROOM
            host = _draw(rng, n, below, guide, label, sequence)
            if host != _NO_HOST:
                n[ASKED] += 1
                if n[NEVER_ASK] == 1 or _place(n, reals, hosts, host):
                    _record(n, events, host, DRAWN_ONLINE)
                    _put_online(n, reals, hosts, slots, host)
                    return _DONE
                _record(n, events, host, DRAWN_OFFLINE)
                _put_offline(n, reals, hosts, ring, p, host)
                continue
            host = _recall(n, hosts, ring, True)
            if host == _NO_HOST:
                return _NOTHING
        _record(n, events, host, RECALLED)
        _read_offline(n, reals, hosts, p, host)
        _put_online(n, reals, hosts, slots, host)
        return _DONE


@jit_without_refcounts
def _draw(rng: Generator, n: Longs, below: Reals, guide: Ints, label: Ints, sequence: Ints) -> int:
    if len(sequence) > 0:
        if n[DRAWN] == len(sequence):
            return _NO_HOST
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


@jit_without_refcounts
def _recall(n: Longs, hosts: Ints, ring: Ints, dry: bool) -> int:
    sentinel = len(hosts) - 1
    oldest = int(hosts[sentinel, AFTER])
    if oldest == sentinel:
        oldest = _NO_HOST
    if n[KIND] == NEUTRAL:
        return oldest if dry else _NO_HOST
    if n[KIND] == INDEX:
        return oldest
    if n[REFUSED] > 0 and not dry:
        return _NO_HOST
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
    return oldest if dry else _NO_HOST


@jit_without_refcounts
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


@jit_without_refcounts
def _put_online(n: Longs, reals: Reals, hosts: Ints, slots: Ints, host: int) -> None:
    """Put a ball online."""
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


@jit_without_refcounts
def _remove(n: Longs, hosts: Ints, slots: Ints, host: int) -> None:
    """Remove a ball; the last colour of the list takes the place of a colour without balls."""
    hosts[host, ONLINE] -= 1
    n[BALLS] -= 1
    if hosts[host, ONLINE] == 0:
        n[DISTINCT] -= 1
        last = slots[n[DISTINCT]]
        slots[hosts[host, SLOT]] = last
        hosts[last, SLOT] = hosts[host, SLOT]
        if hosts[host, BACKLOG] > 0:
            _link(hosts, host)


@jit_without_refcounts
def _put_offline(n: Longs, reals: Reals, hosts: Ints, ring: Ints, p: Reals, host: int) -> None:
    """Put a ball offline that was just drawn."""
    _move_head(n, host)
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


@jit_without_refcounts
def _read_offline(n: Longs, reals: Reals, hosts: Ints, p: Reals, host: int) -> None:
    """Read a ball from offline."""
    _move_head(n, host)
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


@jit_without_refcounts
def _move_head(n: Longs, host: int) -> None:
    """Move the disk's head if it is at another queue (section 8.2)."""
    queue = 0 if n[ORDERED] == 1 else host
    if n[LAST] != queue:
        n[LAST] = queue
        n[MOVES] += 1


@jit_without_refcounts
def _link(hosts: Ints, host: int) -> None:
    """Append to the list of hosts with a backlog and nothing online."""
    end = len(hosts) - 1
    last = hosts[end, BEFORE]
    hosts[last, AFTER] = host
    hosts[host, BEFORE] = last
    hosts[host, AFTER] = end
    hosts[end, BEFORE] = host


@jit_without_refcounts
def _unlink(hosts: Ints, host: int) -> None:
    before, after = hosts[host, BEFORE], hosts[host, AFTER]
    hosts[before, AFTER] = after
    hosts[after, BEFORE] = before


@jit_without_refcounts
def _record(n: Longs, events: Ints, host: int, kind: int) -> None:
    if n[EVENTS] < len(events):
        events[n[EVENTS]] = host * 4 + kind
        n[EVENTS] += 1
