"""One long run of the system, page by page: the kernel under `simulate`.

Nothing of the solver is in here. Every page has its own arrival and its own
expiry, drawn when it enters the buffer; the server takes the oldest page; the
robots' phase is kept when their number changes. The kernel counts, per stretch of
the run, what happened, and leaves all arithmetic to its caller.
"""

from __future__ import annotations

import numpy as np

from fieldmouse.compiled import compiled
from fieldmouse.queueing.model.bmap import climb
from fieldmouse.queueing.model.entries import FloatArray, IntArray

TIME, DELIVERED, DROPPED, OBSOLETE, SERVED = 0, 1, 2, 3, 4
SERVED_TIME, SERVED_SQUARE, OBSOLETE_TIME, OBSOLETE_SQUARE = 5, 6, 7, 8
TALLIES = 9
"""Columns of the tally of a stretch; times of pages are sojourns, from arrival until they leave."""

PARTIAL, REJECTION, COMPLETE = 0, 1, 2


@compiled
def lasts(start: FloatArray, ladder: FloatArray, rng: np.random.Generator) -> float:
    """A time of phase type: `start` is summed up, the last rung of each row of the ladder leaves."""
    end = len(start)
    phase = 0
    thrown = rng.random() * start[-1]
    while start[phase] <= thrown:
        phase += 1
    time = 0.0
    while phase < end:
        if ladder[phase, -1] == 0.0:
            return np.inf
        time += rng.standard_exponential() / ladder[phase, -1]
        phase = climb(ladder, phase, rng)
    return time


@compiled
def admitted(batch: int, level: int, capacity: int, admission: int) -> int:
    """How many pages of a batch are let in at a level."""
    room = capacity - level
    if batch <= room:
        return batch
    if admission == PARTIAL:
        return max(room, 0)
    if admission == COMPLETE and room > 0:
        return batch
    return 0


@compiled
def play(
    ladders: FloatArray,
    mode_at: IntArray,
    capacity: int,
    admission: int,
    service_start: FloatArray,
    service_ladder: FloatArray,
    life_start: FloatArray,
    life_ladder: FloatArray,
    phase: int,
    events: int,
    rng: np.random.Generator,
    tally: FloatArray,
    level_time: FloatArray,
) -> None:
    """Run `events` events (changes of the arrival phase, pages served or obsolete) per row of `tally`.

    The system starts empty, in `phase`. `ladders` is one ladder per mode, over the
    same rungs; `mode_at` is the mode at each level; `level_time` gets the time spent
    at each level.
    """
    # Waiting pages lie from head to tail, oldest first; they move to the front when the end is reached.
    size = 4 * len(mode_at)
    arrived, expires = np.empty(size), np.empty(size)
    head, tail = 0, 0
    phases = ladders.shape[1]
    busy_since, served_at = 0.0, np.inf
    expiry = np.inf
    now, level = 0.0, 0
    mode = mode_at[0]
    change_at = rng.standard_exponential() / ladders[mode, phase, -1]
    for stretch in range(len(tally)):
        began = now
        for _ in range(events):
            at = min(change_at, served_at, expiry)
            level_time[stretch, level] += at - now
            now = at
            if at == change_at:
                rung = climb(ladders[mode], phase, rng)
                batch, phase = rung // phases, rung % phases
                change_at = np.inf
                taken = admitted(batch, level, capacity, admission)
                tally[stretch, DELIVERED] += batch
                tally[stretch, DROPPED] += batch - taken
                if tail + taken > size:
                    for i in range(head, tail):
                        arrived[i - head], expires[i - head] = arrived[i], expires[i]
                    head, tail = 0, tail - head
                for page in range(taken):
                    if level == 0 and page == 0:
                        busy_since = now
                        served_at = now + lasts(service_start, service_ladder, rng)
                    else:
                        arrived[tail] = now
                        expires[tail] = now + lasts(life_start, life_ladder, rng)
                        expiry = min(expiry, expires[tail])
                        tail += 1
                level += taken
            elif at == served_at:
                stay = now - busy_since
                tally[stretch, SERVED] += 1
                tally[stretch, SERVED_TIME] += stay
                tally[stretch, SERVED_SQUARE] += stay * stay
                level -= 1
                if level == 0:
                    served_at = np.inf
                else:
                    gone = expires[head]
                    busy_since = arrived[head]
                    served_at = now + lasts(service_start, service_ladder, rng)
                    head += 1
                    if gone == expiry and gone < np.inf:
                        expiry = np.inf
                        for i in range(head, tail):
                            expiry = min(expiry, expires[i])
            else:
                old = head
                while expires[old] != expiry:
                    old += 1
                stay = now - arrived[old]
                tally[stretch, OBSOLETE] += 1
                tally[stretch, OBSOLETE_TIME] += stay
                tally[stretch, OBSOLETE_SQUARE] += stay * stay
                level -= 1
                tail -= 1
                for i in range(old, tail):
                    arrived[i], expires[i] = arrived[i + 1], expires[i + 1]
                expiry = np.inf
                for i in range(head, tail):
                    expiry = min(expiry, expires[i])
            # Robots that are sent or called back keep their phase; while the pace lasts, so does the draw.
            if mode_at[level] != mode or change_at == np.inf:
                mode = mode_at[level]
                change_at = now + rng.standard_exponential() / ladders[mode, phase, -1]
        tally[stretch, TIME] = now - began
