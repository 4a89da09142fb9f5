"""Each durable part of the frontier, abandoned and reopened from its last seal."""

from __future__ import annotations

import random
import tempfile
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.errors import DamagedFile
from fieldmouse.frontier.durable_parts import TicketLog
from fieldmouse.frontier.queues.sieved_urls import SievedUrlQueue, read_ready_items
from fieldmouse.frontier.queues.virtualizer import Virtualizer, read_queued_links
from fieldmouse.frontier.seen.sieve import DiskSieve, has_key
from fieldmouse.url import Host

seeds = st.integers(0, 2**32)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_a_reopened_sieve_knows_exactly_the_sealed_keys(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        sieve: DiskSieve[int] = DiskSieve(directory, run_size=50)
        state, known, now = None, set[int](), set[int]()
        for _ in range(30):
            keys = [rng.randrange(1, 800) << 50 for _ in range(rng.randrange(60))]
            sieve.offer(keys, keys)
            assert set(sieve.sift()) == set(keys) - now
            now.update(keys)
            if rng.random() < 0.4:
                state, _ = sieve.seal()
                sieve.on_checkpoint_committed()
                known = set(now)
                probe = rng.randrange(1, 800) << 50
                assert has_key(directory, state, probe) == (probe in known)
            if rng.random() < 0.3:
                sieve.close()
                sieve = DiskSieve(directory, state, run_size=50)
                now = set(known)
                assert sieve.seen == len(known)
        sieve.close()


def test_runs_of_similar_size_are_merged() -> None:
    with tempfile.TemporaryDirectory() as home:
        sieve: DiskSieve[int] = DiskSieve(Path(home), run_size=1 << 16)
        rng = random.Random(1)
        for _ in range(40):
            keys = [rng.getrandbits(64) for _ in range(1 << 15)]
            sieve.offer(keys, keys)
            assert sieve.sift() == keys
            sieve.seal()
            sieve.on_checkpoint_committed()
        assert sieve.seen == 40 << 15
        assert sieve.run_count <= 6
        assert len(list(Path(home).glob("run-*.keys"))) <= sieve.run_count + 1
        sieve.close()


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_a_reopened_ready_queue_continues_at_the_seal(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        queue = SievedUrlQueue(directory, segment_size=3000)
        model: deque[tuple[Host, bytes]] = deque()
        sealed, then, number = None, list(model), 0
        for _ in range(80):
            act = rng.random()
            if act < 0.4:
                items = [(Host("http://a.example"), b"%d" % n) for n in range(number, number + rng.randrange(900))]
                number += len(items)
                queue.push(items)
                model.extend(items)
            elif act < 0.8:
                for _ in range(rng.randrange(700)):
                    assert queue.pop() == (model.popleft() if model else None)
            elif act < 0.93:
                sealed, _ = queue.seal()
                then = list(model)
                queue.on_checkpoint_committed()
                assert list(read_ready_items(directory, sealed)) == then
            else:
                queue.close()
                queue = SievedUrlQueue(directory, sealed, segment_size=3000)
                model = deque(then)
            assert len(queue) == len(model)
        queue.close()


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_reopened_host_queues_continue_at_the_seal(seed: int) -> None:
    rng = random.Random(seed)
    hosts = [Host(f"http://h{n}.example") for n in range(6)]
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        queues = Virtualizer(directory, segment_size=2000)
        model: dict[Host, list[bytes]] = {host: [] for host in hosts}
        then, sealed, number = {host: list[bytes]() for host in hosts}, None, 0
        for _ in range(120):
            act, host = rng.random(), rng.choice(hosts)
            if act < 0.4:
                for _ in range(rng.randrange(30)):
                    number += 1
                    queues.append(host, b"%d" % number)
                    model[host].append(b"%d" % number)
            elif act < 0.75:
                most = rng.randrange(1, 40)
                assert queues.take_links(host, most) == model[host][:most]
                del model[host][:most]
            elif act < 0.93:
                sealed, _ = queues.seal()
                then = {host: list(line) for host, line in model.items()}
                queues.on_checkpoint_committed()
                assert list(read_queued_links(directory, sealed, host)) == then[host]
            else:
                queues.close()
                queues = Virtualizer(directory, sealed, segment_size=2000)
                model = {host: list(line) for host, line in then.items()}
            assert len(queues) == sum(map(len, model.values()))
        queues.close()


def test_segments_whose_links_were_taken_are_deleted(tmp_path: Path) -> None:
    queues = Virtualizer(tmp_path, segment_size=10_000)
    rng = random.Random(2)
    hosts = [Host(f"http://h{n}.example") for n in range(20)]
    for _ in range(200):
        for _ in range(100):
            queues.append(rng.choice(hosts), bytes(50))
        for host, count in list(queues.queued_hosts()):
            queues.take_links(host, count - 1)  # the last link of each would keep its segment alive
        queues.seal()
        queues.on_checkpoint_committed()
    assert sum(path.stat().st_size for path in tmp_path.glob("links-*.log")) < 50_000
    queues.close()


def test_many_small_appends_do_not_make_many_small_blocks(tmp_path: Path) -> None:
    queues = Virtualizer(tmp_path)
    host = Host("http://a.example")
    for number in range(1000):
        queues.append(host, b"%d" % number)
        queues.seal()
        queues.on_checkpoint_committed()
    before = queues.reads
    assert queues.take_links(host, 1000) == [b"%d" % number for number in range(1000)]
    assert queues.reads - before < 80
    queues.close()


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_the_front_log_keeps_open_tickets_and_never_reuses_their_numbers(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        front = TicketLog(directory)
        state, live, then = None, dict[int, bytes](), dict[int, bytes]()
        given_out, sealed_numbers = set[int](), set[int]()
        for _ in range(60):
            act = rng.random()
            if act < 0.4:
                links = [rng.randbytes(8) for _ in range(rng.randrange(1, 20))]
                numbers = front.add_url_tickets(links)
                assert given_out.isdisjoint(numbers)
                given_out.update(numbers)
                live.update(zip(numbers, links, strict=True))
            elif act < 0.7 and live:
                some = rng.sample(sorted(live), rng.randrange(1, len(live) + 1))
                assert front.close_tickets([*some, *some]) == len(some)
                for number in some:
                    del live[number]
            elif act < 0.9:
                state, _ = front.seal()
                front.on_checkpoint_committed()
                then, sealed_numbers = dict(live), set(given_out)
            elif state is not None:
                front.close()
                front = TicketLog(directory, state)
                live, given_out = dict(then), set(sealed_numbers)
            assert front.links_by_ticket == live
        front.close()


def test_a_front_log_of_closed_tickets_is_rewritten(tmp_path: Path) -> None:
    front = TicketLog(tmp_path)
    kept = front.add_url_tickets([b"kept"])
    for _ in range(100):
        numbers = front.add_url_tickets([bytes(1000)] * 100)
        front.seal()
        front.on_checkpoint_committed()
        front.close_tickets(numbers)
    state, _ = front.seal()
    front.on_checkpoint_committed()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3 << 20
    front.close()
    assert TicketLog(tmp_path, state).links_by_ticket == {kept[0]: b"kept"}


def test_a_log_shorter_than_the_checkpoint_says_is_damaged(tmp_path: Path) -> None:
    sieve: DiskSieve[int] = DiskSieve(tmp_path)
    sieve.offer([1, 2, 3], [1, 2, 3])
    sieve.sift()
    state, paths = sieve.seal()
    sieve.close()
    paths[0].write_bytes(b"")
    with pytest.raises(DamagedFile):
        DiskSieve(tmp_path, state)


def test_links_in_a_damaged_block_are_not_taken_and_no_others_are_lost(tmp_path: Path) -> None:
    queues = Virtualizer(tmp_path)
    host = Host("http://a.example")
    links = [b"%d" % number for number in range(1000)]
    for link in links:
        queues.append(host, link)
    queues.seal()
    path = tmp_path / "links-0.log"
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + b"?")
    with pytest.raises(DamagedFile, match="links-0"):
        queues.take_links(host, 1000)
    assert queues.queue_length(host) == len(queues) == 1000
    path.write_bytes(raw)
    assert queues.take_links(host, 1000) == links
    queues.close()


def test_a_segment_with_a_bad_record_is_never_deleted(tmp_path: Path) -> None:
    """The few links left in it would be lost."""
    queues = Virtualizer(tmp_path, segment_size=20_000)
    first, other = Host("http://a.example"), Host("http://b.example")
    for number in range(40):
        queues.append(first, b"%d" % number)
        queues.append(other, bytes(1000))
    queues.seal()
    for _ in range(40):
        queues.append(other, bytes(1000))
    queues.seal()
    path = tmp_path / "links-0.log"
    path.write_bytes(b"?" + path.read_bytes()[1:])
    queues.take_links(other, 79)
    with pytest.raises(DamagedFile, match="links-0"):
        queues.seal()
    assert path.exists()


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_a_flipped_byte_among_the_keys_is_detected(seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        sieve: DiskSieve[int] = DiskSieve(directory, run_size=50)
        for _ in range(rng.randrange(1, 9)):
            keys = [rng.getrandbits(64) for _ in range(rng.randrange(1, 40))]
            sieve.offer(keys, keys)
            sieve.sift()
        state, _ = sieve.seal()
        sieve.on_checkpoint_committed()
        sieve.close()
        names = [*state.runs, state.log] if state.logged else [*state.runs]
        path = directory / rng.choice(names)
        raw = bytearray(path.read_bytes())
        raw[rng.randrange(len(raw))] ^= rng.randrange(1, 256)
        path.write_bytes(raw)
        with pytest.raises(DamagedFile, match=path.name):
            DiskSieve(directory, state, run_size=50)
        with pytest.raises(DamagedFile, match=path.name):
            any(has_key(directory, state, key) for key in range(1, 3))
        assert path.read_bytes() == raw
