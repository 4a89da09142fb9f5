"""Page trace against a queue worked out by hand: it records exactly the times that happened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.backpressure_state import BackpressureState
from fieldmouse.control.buffer_trace import (
    BufferEvent,
    BufferMetrics,
    BufferTrace,
    TraceFileWriter,
    previous_trace_path,
    read_trace_rows,
)
from fieldmouse.control.fit_input import exclude_settling_time, service_times, trace_from_rows
from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.fit.trace import Trace

START = 1_000_000.0
RULE = Thresholds((4, 1), (2,))


@dataclass
class Page:
    number: int
    arrived: float
    taken: float | None = None
    left: float | None = None
    fate: BufferEvent = BufferEvent.SERVED


@dataclass
class Story:
    """One server, a bounded buffer, pages that expire: simulated event by event and recorded in a trace."""

    trace: BufferTrace
    pages: list[Page]
    services: list[float]
    levels: list[tuple[float, int]]  # from when, what
    end: float


def play(file: TraceFileWriter, seed: int, count: int, room: int = 6, life: float = 3.0) -> Story:
    chance = np.random.default_rng(seed)
    clock = AutoAdvanceClock(START)
    waiting: list[Page] = []
    serving: list[Page] = []
    meter = BackpressureState()

    def inside() -> int:
        """Number of pages now; also on the meter."""
        meter.set_buffered(len(waiting))
        meter.set_indexing(len(serving))
        meter.set_concurrency(RULE.concurrency_at(meter.level))
        return meter.level

    inside()
    trace = BufferTrace(clock=clock, file=file, meter=meter)
    trace.record_start()
    pages: list[Page] = []
    spent: list[float] = []
    levels = [(START, 0)]
    arrivals = START + np.cumsum(chance.exponential(0.8, count))
    nearest, ready = 0, np.inf
    while nearest < count or inside():
        gone = min((page.arrived + life for page in waiting), default=np.inf)
        coming = arrivals[nearest] if nearest < count else np.inf
        now = float(min(gone, coming, ready))
        clock.advance(now - clock.now())
        now = clock.now()
        if now == ready:
            page = serving.pop()
            page.left, ready = now, np.inf
            inside()
            trace.record_pages_served([page.number])
        elif now == coming:
            page = Page(nearest + 1, now)
            pages.append(page)
            nearest += 1
            lost = inside() >= room
            if lost:
                page.fate, page.left = BufferEvent.DROPPED, now
            else:
                waiting.append(page)
            inside()
            trace.page_arrived(page.number, now, dropped=lost)
        else:
            page = min(waiting, key=lambda one: one.arrived)
            waiting.remove(page)
            page.fate, page.left = BufferEvent.OBSOLETE, now
            inside()
            trace.page_expired(page.number, now)
        if waiting and not serving:
            page = waiting.pop(0)
            page.taken = now
            trace.page_taken(page.number, now)
            serving.append(page)
            spent.append(float(chance.exponential(1.0)))
            ready = now + spent[-1]
        levels.append((now, inside()))
    return Story(trace, pages, spent, levels, clock.now())


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(20, 200))
def test_a_trace_holds_the_actual_arrivals_services_and_lifetimes(seed: int, count: int) -> None:
    story = play(TraceFileWriter(Path("/nonexistent"), 0), seed, count)
    told = trace_from_rows(story.trace.rows(), settling=0.0)
    served = [page for page in story.pages if page.fate is BufferEvent.SERVED]
    known = [page for page in story.pages if page.arrived <= served[-1].arrived]
    np.testing.assert_allclose(told.arrived, [page.arrived - START for page in known], atol=1e-6)
    np.testing.assert_allclose(told.service, story.services[1:], atol=1e-6)
    ages = {fate: [p for p in known if p.fate is fate] for fate in (BufferEvent.OBSOLETE, BufferEvent.SERVED)}
    np.testing.assert_allclose(told.expired, [3.0] * len(ages[BufferEvent.OBSOLETE]), rtol=1e-6)
    waits = [page.taken - page.arrived for page in ages[BufferEvent.SERVED] if page.taken is not None]
    np.testing.assert_allclose(told.outlived, waits, rtol=1e-6, atol=1e-6)
    assert told.span == served[-1].arrived - START


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(20, 200))
def test_the_mode_is_known_at_every_moment(seed: int, count: int) -> None:
    story = play(TraceFileWriter(Path("/nonexistent"), 0), seed, count)
    told = trace_from_rows(story.trace.rows(), settling=0.0)
    moments = np.random.default_rng(seed).uniform(0, told.span, 50)
    for moment in moments:
        level = [level for at, level in story.levels if at - START <= moment][-1]
        assert told.mode[np.searchsorted(told.switched, moment, side="right") - 1] == RULE.concurrency_at(level)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(20, 200))
def test_the_gauge_measures_the_scripted_queue(seed: int, count: int) -> None:
    story = play(TraceFileWriter(Path("/nonexistent"), 0), seed, count)
    totals = story.trace.totals()
    fare = BufferMetrics.measured(totals)
    edges = np.array([at for at, _ in story.levels])
    levels = np.array([level for _, level in story.levels])
    spans = np.diff(edges)
    whole = story.end - START
    by_fate = {fate: [page for page in story.pages if page.fate is fate] for fate in BufferEvent}
    np.testing.assert_allclose(fare.rate, count / whole)
    np.testing.assert_allclose(fare.loss, len(by_fate[BufferEvent.DROPPED]) / count)
    np.testing.assert_allclose(fare.obsolete, len(by_fate[BufferEvent.OBSOLETE]) / count)
    np.testing.assert_allclose(fare.starvation, spans[levels[:-1] == 0].sum() / whole, atol=1e-9)
    np.testing.assert_allclose(fare.level, (spans @ levels[:-1]) / whole, atol=1e-9)
    robots = np.array([RULE.concurrency_at(level) for level in levels[:-1].tolist()])
    np.testing.assert_allclose(fare.robots, (spans @ robots) / whole, atol=1e-9)
    stays = [page.left - page.arrived for page in by_fate[BufferEvent.SERVED] if page.left is not None]
    np.testing.assert_allclose(fare.response, np.mean(stays), atol=1e-9)
    # Little's law holds for every realisation that begins and ends empty.
    others = [page.left - page.arrived for page in by_fate[BufferEvent.OBSOLETE] if page.left is not None]
    np.testing.assert_allclose(totals.page_seconds, sum(stays) + sum(others), atol=1e-6)


def test_a_window_of_rows_yields_only_complete_events() -> None:
    story = play(TraceFileWriter(Path("/nonexistent"), 0), 5, 400)
    rows = story.trace.rows()
    window = rows[len(rows) // 3 : 2 * len(rows) // 3]
    told = trace_from_rows(window, settling=0.0)
    start = float(window["at"][0] + window["stay"][0])
    true = [page.arrived for page in story.pages if start <= page.arrived <= start + told.span + 1e-6]
    np.testing.assert_allclose(told.arrived + start, true, atol=1e-6)
    assert len(told.arrived) > 50


def test_runs_of_a_crawl_are_joined_without_the_time_between() -> None:
    first, second = (play(TraceFileWriter(Path("/nonexistent"), 0), seed, 50).trace.rows() for seed in (1, 2))
    second = second.copy()
    second["at"] += 1e6
    alone = [trace_from_rows(rows, settling=0.0) for rows in (first, second)]
    joined = trace_from_rows(np.concatenate([first, second]), settling=0.0)
    assert joined.span == alone[0].span + alone[1].span
    assert len(joined.arrived) == sum(len(one.arrived) for one in alone)
    assert (np.diff(joined.arrived) >= 0).all()


def test_results_that_arrive_together_share_their_service_time() -> None:
    found = service_times(np.array([0.0, 0.1, 0.2, 0.3]), np.array([1.0, 4.0, 4.0, 4.0]))
    assert found.tolist() == [1.0, 1.0, 1.0]


@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(1, 4)), min_size=1, max_size=20), st.floats(0, 3))
def test_settling_time_is_cut_from_each_new_mode_only(stretches: list[tuple[float, int]], settling: float) -> None:
    spans = np.array([span for span, _ in stretches])
    modes = np.array([mode for _, mode in stretches])
    starts = np.concatenate(([0.0], np.cumsum(spans)[:-1]))
    middle = starts + spans / 2
    trace = Trace(arrived=middle, robots=modes, span=float(spans.sum()), switched=starts, mode=modes)
    told = exclude_settling_time(trace, settling)
    lengths = np.diff(told.switched, append=told.span)
    np.testing.assert_allclose(lengths.sum(), trace.span)
    new = np.concatenate(([False], modes[1:] != modes[:-1]))
    for mode in range(1, 5):
        mine = modes == mode
        left = np.where(new, np.maximum(spans - settling, 0.0), spans)[mine].sum()
        np.testing.assert_allclose(lengths[told.mode == mode].sum(), left, atol=1e-9)


def test_the_file_keeps_the_newest_rows_within_its_allowance(tmp_path: Path) -> None:
    path = tmp_path / "pages.trace"
    file = TraceFileWriter(path, 40_000)
    story = play(file, 3, 3000, life=1e9)
    story.trace.close()
    size = path.stat().st_size + previous_trace_path(path).stat().st_size
    assert size <= 40_000
    kept = read_trace_rows(path)
    assert len(kept) * kept.itemsize > 15_000
    everything = story.trace.rows()
    np.testing.assert_array_equal(kept, everything[-len(kept) :])


def test_a_torn_tail_is_cut_and_the_trace_continues(tmp_path: Path) -> None:
    path = tmp_path / "pages.trace"
    play(TraceFileWriter(path, 1 << 20), 1, 100).trace.close()
    whole = read_trace_rows(path)
    with path.open("ab") as file:
        file.write(b"\x40\0\0\0torn")
    np.testing.assert_array_equal(read_trace_rows(path), whole)
    play(TraceFileWriter(path, 1 << 20), 2, 100).trace.close()
    assert len(read_trace_rows(path)) > len(whole)
    assert (read_trace_rows(path)["fate"] == BufferEvent.BEGAN).sum() == 2


def test_pages_of_a_dead_worker_leave_the_level() -> None:
    clock = AutoAdvanceClock(START)
    meter = BackpressureState()
    meter.set_concurrency(1)
    trace = BufferTrace(clock=clock, file=TraceFileWriter(Path("/nonexistent"), 0), meter=meter)
    trace.record_start()
    for number in (1, 0, 2):
        meter.set_indexing(meter.indexing + 1)
        trace.page_arrived(number, clock.now())
    meter.set_indexing(0)
    trace.record_pages_of_dead_worker([1, 2, 77])
    trace.record_pages_served([0])  # a result for a robots.txt, which has no ticket
    assert trace.rows()["fate"].tolist() == [BufferEvent.BEGAN, BufferEvent.UNDONE, BufferEvent.UNDONE]
    assert trace.totals().served == 0


def test_checkpoints_do_not_shorten_the_recorded_history() -> None:
    clock = AutoAdvanceClock(START)
    trace = BufferTrace(
        clock=clock, file=TraceFileWriter(Path("/nonexistent"), 0), meter=BackpressureState(), newest=300
    )
    for number in range(1, 1001):
        clock.advance(1.0)
        trace.page_arrived(number, clock.now())
        trace.record_pages_served([number])
        if number % 5 == 0:
            trace.flush()
    times = trace.rows()["at"].tolist()
    assert 300 <= len(times) < 310, "a bound on rows, whatever the length of blocks"
    assert times == [START + second for second in range(1001 - len(times), 1001)]
