"""Host table: its contents, and the promises that must survive a kill."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fieldmouse.frontier.hosts import host_table
from fieldmouse.frontier.hosts.host_table import HostTable, HostTableState, read_hosts
from fieldmouse.storage.log import Log
from fieldmouse.types.host_state import HostState
from fieldmouse.url import Host

NOW = 1_000_000.0
A, B = Host("http://a.example"), Host("http://b.example")


def ordinary(state: HostState) -> float:
    return max(1.0, state.crawl_delay)


def killed(table: HostTable, directory: Path, state: HostTableState | None, into: Path) -> HostTable:
    """Return the table as the next process finds it: unwritten rows are lost."""
    shutil.copytree(directory, into)
    return HostTable(into, state, ordinary)


@pytest.mark.parametrize(
    "told",
    [
        HostState("10.0.0.1", NOW + 3600.0, NOW + 1.0),
        HostState("10.0.0.1", NOW + 1.0, NOW + 3600.0),
        HostState("10.0.0.1", NOW + 1.0, NOW + 1.0, failures=3),
        HostState("10.0.0.1", NOW + 1.0, NOW + 1.0, crawl_delay=30.0),
    ],
)
@pytest.mark.parametrize("sealed", [True, False])
def test_a_promise_to_wait_survives_a_kill_before_any_checkpoint(tmp_path: Path, told: HostState, sealed: bool) -> None:
    here = tmp_path / "here"
    here.mkdir()
    table = HostTable(here, None, ordinary)
    state = None
    if sealed:
        state, _ = table.seal()
    table.put(A, told, NOW)
    found = killed(table, here, state, tmp_path / "there").get(A)
    assert found.ready_at == told.ready_at
    assert found.address_ready_at == told.address_ready_at
    assert (found.failures, found.crawl_delay) == (told.failures, told.crawl_delay)


def test_a_promise_survives_two_kills_without_a_checkpoint_between(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    table = HostTable(here, None, ordinary)
    table.put(A, HostState("10.0.0.1", NOW + 60.0, NOW + 60.0), NOW)
    state, _ = table.seal()
    table.on_checkpoint_committed()
    second = killed(table, here, state, tmp_path / "second")
    second.put(B, HostState("10.0.0.2", NOW + 3600.0, NOW + 3600.0), NOW)
    third = killed(second, tmp_path / "second", state, tmp_path / "third")
    assert third.get(A).ready_at == NOW + 60.0
    assert third.get(B).ready_at == NOW + 3600.0


def test_pages_counted_after_the_checkpoint_are_not_counted_twice(tmp_path: Path) -> None:
    """They will be fetched again: their outcomes were lost with the kill."""
    here = tmp_path / "here"
    here.mkdir()
    table = HostTable(here, None, ordinary)
    table.put(A, HostState("10.0.0.1", pages=5), NOW)
    state, _ = table.seal()
    table.put(A, HostState("10.0.0.1", NOW + 3600.0, pages=9, verdict="host given up"), NOW)
    found = killed(table, here, state, tmp_path / "there").get(A)
    assert (found.pages, found.verdict, found.ready_at) == (5, "", NOW + 3600.0)


def test_after_a_restart_every_host_gets_its_full_delay_again(tmp_path: Path) -> None:
    table = HostTable(tmp_path, None, ordinary)
    table.put(A, HostState("10.0.0.1", 5.0, 5.0, crawl_delay=30.0), NOW)
    table.put(B, HostState("10.0.0.2", NOW + 3600.0, 0.0), NOW)
    assert table.restart_all_delays(NOW) == NOW + 1.0
    assert (table.get(A).ready_at, table.get(A).address_ready_at) == (NOW + 30.0, NOW + 30.0)
    assert (table.get(B).ready_at, table.get(B).address_ready_at) == (NOW + 3600.0, NOW + 1.0)
    assert table.get(Host("http://never-met.example")).ready_at == NOW + 1.0


def test_the_log_of_a_table_that_keeps_changing_stays_small(tmp_path: Path) -> None:
    table = HostTable(tmp_path, None, ordinary)
    many = [Host(f"http://{n}.example") for n in range(500)]
    for day in range(100):
        for host in many:
            table.put(host, HostState("10.0.0.1", NOW + day, NOW + day), NOW + day)
        state, _ = table.seal()
        table.on_checkpoint_committed()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3 << 20
    table.close()
    again = HostTable(tmp_path, state, ordinary)
    assert {told.ready_at for _, told in again} == {NOW + 99}


states = st.builds(
    HostState,
    st.sampled_from(["", "10.0.0.1", "::1"]),
    st.floats(0, 2 * NOW),
    st.floats(0, 2 * NOW),
    st.floats(0, 60),
    st.integers(0, 9),
    st.integers(0, 10**6),
    st.sampled_from(["", "host given up"]),
)
rows = st.lists(st.tuples(st.integers(0, 20).map(lambda n: Host(f"http://{n}.example")), states), max_size=60)


@settings(max_examples=50, deadline=None)
@given(rows, st.lists(st.binary(max_size=30), max_size=3))
def test_sealed_states_survive_a_torn_log(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Host, HostState]], torn: list[bytes]
) -> None:
    directory = tmp_path_factory.mktemp("hosts")
    state = None
    latest: dict[Host, HostState] = {}
    for life in range(len(torn) + 1):
        table = HostTable(directory, state, ordinary)
        assert dict(table) == latest
        for host, told in rows[life::3]:
            table.put(host, told, NOW)
            latest[host] = told
        state, paths = table.seal()
        table.on_checkpoint_committed()
        table.close()
        if life < len(torn):
            with paths[0].open("ab") as file:
                file.write(torn[life])


waits = st.floats(0, 7200)
jumps = st.floats(-86400, 86400)


@settings(max_examples=100, deadline=None)
@given(waits, st.floats(0, 3600), st.booleans(), jumps, jumps)
def test_a_wait_never_gets_longer_when_the_clock_is_set(
    tmp_path_factory: pytest.TempPathFactory,
    wait: float,
    later: float,
    sealed: bool,
    first_jump: float,
    second_jump: float,
) -> None:
    """Promised, perhaps sealed later, killed, read by another clock, killed again, read by a third."""
    here = tmp_path_factory.mktemp("hosts")
    table = HostTable(here, None, ordinary, NOW)
    table.put(A, HostState("10.0.0.1", NOW + wait, NOW + wait, failures=1), NOW)
    state, left = None, wait
    if sealed:
        state, _ = table.seal(NOW + later)
        left = wait - later
    second_now = NOW + (later if sealed else 0.0) + first_jump
    second = killed_at(here, state, second_now)
    assert second.get(A).ready_at - second_now <= max(0.0, min(left, NOW + wait - second_now)) + 1e-6
    second_left = second.get(A).ready_at - second_now
    second.restart_all_delays(second_now)
    rests = second.get(A).ready_at - second_now
    assert rests == pytest.approx(max(second_left, 1.0), abs=1e-6)
    third_now = second_now + second_jump
    third = killed_at(here, state, third_now)
    third.restart_all_delays(third_now)
    rests = third.get(A).ready_at - third_now
    by_clock = second_now + second_left - third_now
    # Two kills without a checkpoint: rows of the first process also count by their own time.
    old = min(left, NOW + wait - third_now)
    assert rests <= max(min(second_left, by_clock), old, 1.0) + 1e-6
    assert rests >= 1.0 - 1e-6


def killed_at(directory: Path, state: HostTableState | None, now: float) -> HostTable:
    return HostTable(directory, state, ordinary, now)


def test_a_clock_set_back_by_five_hours_does_not_prolong_a_wait(tmp_path: Path) -> None:
    table = HostTable(tmp_path, None, ordinary, NOW)
    table.put(A, HostState("10.0.0.1", NOW + 600.0, NOW + 1.0, failures=1), NOW)
    state, _ = table.seal(NOW)
    table.put(B, HostState("10.0.0.2", NOW + 900.0, NOW + 901.0, failures=1), NOW + 1.0)
    table.close()
    earlier = NOW - 5 * 3600.0
    again = HostTable(tmp_path, state, ordinary, earlier)
    again.restart_all_delays(earlier)
    assert again.get(A).ready_at == earlier + 600.0
    assert again.get(B).ready_at == earlier + 899.0
    assert again.get(B).address_ready_at == earlier + 900.0


def test_rows_of_older_crawls_without_a_time_are_used_unchanged(tmp_path: Path) -> None:
    log = Log(tmp_path / "hosts-0.log")
    log.append(msgspec.msgpack.encode((A, HostState("10.0.0.1", NOW + 600.0))))
    state = msgspec.convert([0, log.flush()], HostTableState)
    log.close()
    assert HostTable(tmp_path, state, ordinary, NOW - 100.0).get(A).ready_at == NOW + 600.0


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 40), states, st.booleans()), max_size=40), max_size=6),
    st.integers(1, 64),
)
def test_hosts_are_kept_apart_for_any_size_of_the_cache(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    lives: list[list[tuple[int, HostState, bool]]],
    hashes: int,
) -> None:
    """Names with equal hashes, a cache of four rows, and a log that is rewritten all the time."""
    monkeypatch.setattr(host_table, "_IN_MEMORY", 4)
    monkeypatch.setattr(host_table, "_REWRITE_AT", 300)
    monkeypatch.setattr(host_table, "xxh3_64_intdigest", lambda tag, seed: sum(tag) % hashes << 58)
    directory = tmp_path_factory.mktemp("hosts")
    state, latest = None, dict[Host, HostState]()
    for changes in lives:
        table = HostTable(directory, state, ordinary)
        table.roll_back_to_checkpoint()
        for number, told, sealed in changes:
            host = Host(f"http://{number}.example")
            if told.pages % 2:
                assert table.get_or_add(host) == latest.setdefault(host, table.unknown)
            else:
                table.put(host, told, NOW)
                latest[host] = told
            assert table.get(host) == latest[host]
            assert table.host_at(table.number_of(host)) == host
            if sealed:
                table.seal(NOW)
                table.on_checkpoint_committed()
        assert dict(table) == latest
        assert len(table) == len(latest)
        assert [table.number_of(Host(f"http://{n}.example")) < 0 for n in range(41)] == [
            f"http://{n}.example" not in latest for n in range(41)
        ]
        state, _ = table.seal(NOW)
        table.on_checkpoint_committed()
        table.close()
        assert read_hosts(directory, state) == latest
        assert all(read_hosts(directory, state, only=host) == {host: latest[host]} for host in latest)


def test_opening_without_a_later_checkpoint_leaves_no_promises(tmp_path: Path) -> None:
    """The log it left holds copies, and copies are no promises."""
    table = HostTable(tmp_path, None, ordinary, NOW)
    for number in range(300):
        table.put(Host(f"http://{number}.example"), HostState("10.0.0.1", NOW + number, NOW), NOW)
    state, _ = table.seal(NOW)
    table.on_checkpoint_committed()
    table.close()
    second = HostTable(tmp_path, state, ordinary, NOW + 1)
    second.roll_back_to_checkpoint()
    second.close()
    third = HostTable(tmp_path, state, ordinary, NOW + 2)
    assert len(list(tmp_path.iterdir())) == 2
    assert dict(third) == {Host(f"http://{n}.example"): HostState("10.0.0.1", NOW + n, NOW) for n in range(300)}
