"""Index of host queues: rewriting it a slice at a time never changes its contents."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fieldmouse.frontier.queues import queue_index
from fieldmouse.frontier.queues.queue_index import queue_lengths, read_queue
from fieldmouse.frontier.queues.virtualizer import Virtualizer, read_queued_links
from fieldmouse.url import Host

acts = st.lists(
    # append to a host's queue, take from it, or seal
    st.tuples(st.integers(0, 12), st.integers(-40, 40)) | st.none(),
    max_size=80,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts, st.integers(1, 5))
def test_every_sealed_queue_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    acts: list[tuple[int, int] | None],
    width: int,
) -> None:
    monkeypatch.setattr(queue_index, "_REWRITE_AT", 100)
    monkeypatch.setattr(queue_index, "_SLICE", width)
    directory = tmp_path_factory.mktemp("queues")
    queues = Virtualizer(directory, segment_size=2000)
    queues.roll_back_to_checkpoint()
    model: dict[Host, deque[bytes]] = {}
    number = 0
    for act in [*acts, None]:
        if act is None:
            state, _ = queues.seal()
            queues.on_checkpoint_committed()
            waiting = {host: len(line) for host, line in model.items() if line}
            assert dict(queue_lengths(directory, state.index)) == waiting
            again = Virtualizer(directory, state, segment_size=2000)
            assert dict(again.queued_hosts()) == waiting
            assert len(again) == sum(waiting.values())
            again.close()
            for host, line in model.items():
                assert list(read_queued_links(directory, state, host)) == list(line)
                assert read_queue(directory, state.index, host).host == host
            continue
        host = Host(f"http://h{act[0]}.example")
        line = model.setdefault(host, deque())
        for _ in range(act[1]):
            number += 1
            line.append(b"%d " % number * 4)
            queues.append(host, line[-1])
        if act[1] < 0:
            assert queues.take_links(host, -act[1]) == [line.popleft() for _ in range(min(-act[1], len(line)))]
    queues.close()
