"""The arrays a compiled game is played on.

A ball has no identity beyond its colour, so a host's queue is a count, and the one
queue of Algorithm 12 a ring of colours. All that is known of a host lies side by
side, in 32 bytes: a draw touches one line of the processor's cache, and a game with
ten million hosts fits in half a gigabyte.

Whoever renumbers something here must touch `kernel.py` too: compiled code is kept
until that file changes, and has these numbers inside.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.distribution import Distribution, Greedy, Index, MiceAndElephants, Neutral

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

# Kinds of strategy the kernel plays.
NEUTRAL, GREEDY, ELEPHANTS, INDEX = range(4)

# How a game stands, in numbers[STATE].
PLAYING, STUCK, FULL, DRY = range(4)

# Places in `numbers`: the rules, which a game never changes, then how it stands, then what is counted.
(
    KIND, CAPACITY, LIMIT, STOP_SEARCH, ORDERED, OWN_QUEUES, ADAPTED, DRAW_CAP, DEPTH, BACKLOG_LIMIT,
    INDEX_LIMIT, CAP, PERMUTED, WATCHED,
    STATE, LEFT, FILLING, PENDING, ASKED, NEVER_ASK, DISTINCT, BALLS, STORED, WAITING, NAMED, REFUSED, PLACED,
    LAST, HEAD, TAIL, DRAWN,
    SUM, STEPS, DRAWS, APPENDS, READS, MOVES, EVENTS,
    NUMBERS,
) = range(39)  # fmt: skip

# Places in `reals`.
TOKENS, BUDGET, BURST, MASS, CEILING, REALS = range(6)

# Columns of `hosts`. SLOT is where it is in the list of colours online; AFTER and BEFORE chain those with a
# backlog and nothing online, oldest first, from the extra last row and back to it; GONE counts entries of the
# one queue that were recalled out of turn.
ONLINE, SLOT, BACKLOG, AFTER, BEFORE, ELEPHANT, GONE, COLUMNS = range(8)

NO_END = 1 << 62

# What happened to a ball; an event is colour * 4 + kind.
LEFT_ONLINE, DRAWN_ONLINE, DRAWN_OFFLINE, RECALLED = range(4)


class UrnBoard(NamedTuple):
    """One game: its numbers, its hosts, the colours online, the one queue, and where draws come from."""

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


class BoardRules(NamedTuple):
    """A policy's parameters, as the kernel reads them."""

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


def rules_of(policy: Distribution[int]) -> BoardRules | None:
    """What the kernel must know to play this policy, or None if only the policy itself can.

    A subclass may have changed anything, so only the very classes the kernel was written after count.
    """
    kind: type = type(policy)
    if kind is Neutral:
        return BoardRules(NEUTRAL)
    if isinstance(policy, Greedy) and kind is Greedy:
        return BoardRules(GREEDY, ordered=True, draw_cap=policy.draw_cap)
    if isinstance(policy, MiceAndElephants) and kind is MiceAndElephants:
        return BoardRules(
            ELEPHANTS,
            ordered=policy.ordered,
            limit=policy.limit,
            stop_search=NO_END if policy.stop_search is None else policy.stop_search,
            own_queues=policy.own_queues,
            adapted=policy.adapted,
            draw_cap=policy.draw_cap,
            elephants=frozenset(policy.elephants),
        )
    if isinstance(policy, Index) and kind is Index:
        return BoardRules(
            INDEX,
            depth=policy.depth,
            backlog_limit=policy.backlog_limit,
            index_limit=policy.index_limit,
            budget=policy.draws,
            burst=policy.burst,
        )
    return None
