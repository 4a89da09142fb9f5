"""Contract of host queues, run for each implementation."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.frontier.queues.virtualizer import HostQueues, MemoryHostQueues, Virtualizer
from fieldmouse.url import Host


@contextmanager
def memory() -> Iterator[tuple[HostQueues, Callable[[], None]]]:
    yield MemoryHostQueues(), lambda: None


@contextmanager
def disk() -> Iterator[tuple[HostQueues, Callable[[], None]]]:
    with tempfile.TemporaryDirectory() as directory:
        queues = Virtualizer(Path(directory), segment_size=2000)

        def seal() -> None:
            queues.seal()
            queues.on_checkpoint_committed()

        yield queues, seal


Make = Callable[[], Iterator[tuple[HostQueues, Callable[[], None]]]]
every_kind = pytest.mark.parametrize("make", [memory, disk])

hosts = st.sampled_from([Host(f"http://h{n}.example") for n in range(5)])
acts = st.lists(
    st.one_of(
        st.tuples(st.just("append"), hosts, st.integers(1, 80)),
        st.tuples(st.just("take"), hosts, st.integers(1, 60)),
        st.tuples(st.just("seal"), hosts, st.just(0)),
    ),
    max_size=60,
)


@every_kind
@settings(max_examples=80, deadline=None)
@given(acts)
def test_each_host_gets_its_links_back_in_order(make: Make, acts: list[tuple[str, Host, int]]) -> None:
    with make() as (queues, seal):
        model: dict[Host, deque[bytes]] = {}
        number = 0
        for act, host, amount in acts:
            line = model.setdefault(host, deque())
            if act == "append":
                for _ in range(amount):
                    number += 1
                    link = b"%d " % number * 4
                    queues.append(host, link)
                    line.append(link)
            elif act == "take":
                got = queues.take_links(host, amount)
                assert len(got) == min(amount, len(line))
                assert got == [line.popleft() for _ in got]
            else:
                seal()
            assert queues.queue_length(host) == len(line)
            assert len(queues) == sum(map(len, model.values()))
        assert dict(queues.queued_hosts()) == {host: len(line) for host, line in model.items() if line}
