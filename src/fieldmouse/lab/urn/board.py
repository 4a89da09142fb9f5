"""Arrays that hold the state of a compiled game.

A ball has no identity beyond its colour. A host's queue is therefore a count, and the single queue of
Algorithm 12 is a ring of colours. The fields of a host are adjacent, 32 bytes in all: a draw touches one
cache line, and a game with ten million hosts fits in half a gigabyte.

After a change of these numbers also touch `kernel.py`: compiled code contains them and is cached until
that file changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fieldmouse.policy.distribution import Distribution, Greedy, Index, MiceAndElephants, Neutral

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


class UrnBoard(NamedTuple):
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


class BoardRules(NamedTuple):
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


def rules_of(policy: Distribution[int]) -> BoardRules | None:
    """Return the kernel's parameters for this policy, or None if the kernel cannot play it.

    Subclasses return None, because a subclass may override anything.
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
