"""Outbox of an agent: messages to the coordinator, kept until they are safe there; and outcomes that never counted.

There are two main kinds: links found and durable outcomes. They are sent in the order in which they came,
so the links of a page reach the coordinator before its outcome. The outbox is part of the checkpoint: the
links of a page are as durable as the page. An outcome is sent only after the checkpoint that holds it is
durable.

A killed server loses its last seconds. So sent messages are kept for a while and sent again to a
restarted server; the coordinator counts nothing twice. They are kept until the coordinator has recorded a
later heartbeat, and for a while after that. That heartbeat is stored in the first checkpoint without the
messages sent before it. A coordinator that does not know it has an old copy of its data, and nothing is
sent to it.

The coordinator may grant URLs that this agent already has an outcome for: outcomes that came too late
because the lease was lost, and those of an agent that was forgotten. The agent then acknowledges its own
copies without fetching. Their kinds are read from the outcome log, each part of it at most once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np

from fieldmouse.cluster.coordinator import ANY_HEARTBEAT, PAGE_KIND, AgentId, HeartbeatId
from fieldmouse.storage.checkpoint import Checkpoint, DurableLog, SealedPart, read_checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log, decode_record, make_directory, read_records
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Host, key_of

CHECKPOINT_PART = "board"
#: Seconds for which sent messages are kept: an append-only file is synced every second or two.
KEEP_SENT_SECONDS = 30.0
_SEGMENT_BYTES = 4 << 20  # bytes


class LinksMessage(msgspec.Struct, frozen=True, array_like=True, tag="found"):
    """Links of one host."""

    host: Host
    links: tuple[tuple[int, bytes], ...]
    is_seed: bool = False
    stored_pages: ClassVar[int] = 0


class AckedUrl(msgspec.Struct, frozen=True, array_like=True):
    key: int
    url: str
    kind: str  # kind of its outcome


class OutcomesMessage(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """Outcomes of one checkpoint by lease: host, epoch and URLs."""

    incarnation: int
    leases: tuple[tuple[Host, int, tuple[AckedUrl, ...]], ...]
    number: int = 0  # grows with each message; 0 for a message that is not kept

    @property
    def stored_pages(self) -> int:
        return sum(url.kind == PAGE_KIND for _, _, urls in self.leases for url in urls)


class RetryMessage(msgspec.Struct, frozen=True, array_like=True, tag="forgiven"):
    """Failed outcomes of one host to retry: as `coordinator.RetryBatch`."""

    host: Host
    links: tuple[tuple[int, bytes], ...]
    kinds: tuple[str, ...]
    number: int  # shares the counter of `OutcomesMessage`
    stored_pages: ClassVar[int] = 0


OutboxMessage = LinksMessage | OutcomesMessage | RetryMessage


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutboxMessage).decode


class OutboxState(msgspec.Struct, frozen=True):
    """State in the checkpoint, under the name `board`."""

    segments: tuple[tuple[int, int], ...] = ()  # number and length of each file, oldest first
    agent: str = ""
    incarnation: int = 0
    done: int = 0  # number of the last `OutcomesMessage` or `RetryMessage`
    since: HeartbeatId = ANY_HEARTBEAT  # heartbeat known to a coordinator that received all messages no longer kept


class _Segment:
    def __init__(self, number: int, log: Log, now: float) -> None:
        self.number, self.log, self.begun_at = number, log, now
        self.unsent = 0  # messages in it that were not sent
        self.sent_at = now  # when the last one was sent


class Outbox:
    """Durable queue of messages that the session empties; takes part in checkpoints."""

    name = CHECKPOINT_PART

    def __init__(self, directory: Path, last: Checkpoint | None, now: Callable[[], float]):
        state = outbox_state_of(last)
        self._directory, self._now = directory, now
        self.restored_state, self._agent, self._incarnation = state, state.agent, state.incarnation
        self._done = state.done
        self.safe_heartbeat, self._since_at = state.since, -inf
        self._heartbeats: deque[tuple[float, HeartbeatId]] = deque()  # later heartbeats, and when each was sent
        self._segments: deque[_Segment] = deque()
        self._queue: deque[tuple[_Segment, OutboxMessage]] = deque()  # to be sent, oldest first
        self._sent: deque[tuple[_Segment, OutboxMessage]] = deque()  # sent, and perhaps not safe yet
        self._waiting_for_checkpoint: list[tuple[_Segment, OutboxMessage]] = []
        self._obsolete_files: list[Path] = []
        self.unsent_pages = 0  # pages among the outcomes that were not sent
        self._resends = self._resends_at_next = 0  # calls of `requeue_sent`, now and at the last `next_batch`
        for number, length in state.segments:
            segment = _Segment(number, Log(self._path(number), length), now())
            self._segments.append(segment)
            for _, record in read_records(segment.log.path, length=length):
                self._enqueue_in_memory(segment, decode_record(segment.log.path, _decode, record))
        self._number = state.segments[-1][0] if state.segments else 0

    def _path(self, number: int) -> Path:
        return self._directory / f"tell-{number}.log"

    def _enqueue_in_memory(self, segment: _Segment, telling: OutboxMessage, *, after_checkpoint: bool = False) -> None:
        segment.unsent += 1
        self.unsent_pages += telling.stored_pages
        (self._waiting_for_checkpoint if after_checkpoint else self._queue).append((segment, telling))

    def _persist_and_enqueue(self, telling: OutboxMessage, *, after_checkpoint: bool = False) -> None:
        segment = self._current_segment()
        segment.log.append(_encode(telling))
        self._enqueue_in_memory(segment, telling, after_checkpoint=after_checkpoint)

    # -- the agent's side

    def set_agent(self, name: AgentId) -> None:
        """Set the identity of this agent from now on."""
        self._agent, self._incarnation = name.agent, name.incarnation

    def add_links(self, message: LinksMessage) -> None:
        """Add found links: they are sent as soon as possible."""
        self._persist_and_enqueue(message)

    def add_acks(self, leases: Mapping[tuple[Host, int], Sequence[AckedUrl]]) -> None:
        """Add outcomes that the coming checkpoint holds."""
        self._done += 1
        by_lease = tuple((host, epoch, tuple(urls)) for (host, epoch), urls in leases.items())
        self._persist_and_enqueue(OutcomesMessage(self._incarnation, by_lease, self._done), after_checkpoint=True)

    def add_retries(self, host: Host, links: Sequence[tuple[int, bytes]], kinds: Sequence[str]) -> None:
        """Add outcomes to retry: the coming checkpoint no longer counts them as settled."""
        self._done += 1
        self._persist_and_enqueue(RetryMessage(host, tuple(links), tuple(kinds), self._done), after_checkpoint=True)

    def add_repeated_acks(self, lease: tuple[Host, int], urls: Sequence[AckedUrl]) -> None:
        """Add outcomes settled long ago. They are not kept: a new grant of them repeats the message."""
        self._enqueue_in_memory(self._current_segment(), OutcomesMessage(0, ((*lease, tuple(urls)),)))

    def _current_segment(self) -> _Segment:
        if not self._segments or self._segments[-1].log.length > _SEGMENT_BYTES:
            self._begin_segment()
        return self._segments[-1]

    def _begin_segment(self) -> None:
        self._number += 1
        self._segments.append(_Segment(self._number, Log(self._path(self._number)), self._now()))

    # -- the session's side

    def __len__(self) -> int:
        """Number of messages not sent yet."""
        return len(self._queue) + len(self._waiting_for_checkpoint)

    def next_batch(self, most: int) -> list[OutboxMessage]:
        """The oldest messages of one kind, to be sent together; `most` limits their number of links."""
        batch: list[OutboxMessage] = []
        weight = 0
        self._resends_at_next = self._resends
        for _, telling in self._queue:
            if batch and type(telling) is not type(batch[0]):
                break
            batch.append(telling)
            weight += len(telling.links) if isinstance(telling, LinksMessage) else most
            if weight >= most:
                break
        return batch

    def unsent_ack_keys_by_lease(self) -> dict[tuple[Host, int], set[int]]:
        """Keys of the outcomes not sent yet, by lease."""
        keys: dict[tuple[Host, int], set[int]] = {}
        for _, telling in (*self._queue, *self._waiting_for_checkpoint):
            if isinstance(telling, OutcomesMessage):
                for host, epoch, urls in telling.leases:
                    keys.setdefault((host, epoch), set()).update(url.key for url in urls)
        return keys

    def mark_sent(self, count: int) -> int:
        """Mark the oldest `count` messages, those of the last `next_batch`, as sent; returns their pages."""
        if self._resends != self._resends_at_next:
            # the server may have been replaced since they were sent, and the oldest messages are different
            # now
            return 0
        now, untold = self._now(), self.unsent_pages
        for _ in range(count):
            segment, telling = self._queue.popleft()
            segment.unsent -= 1
            self.unsent_pages -= telling.stored_pages
            segment.sent_at = now
            self._sent.append((segment, telling))
        while self._sent and self._is_safely_delivered(self._sent[0][0], now):
            self._sent.popleft()
        return untold - self.unsent_pages

    def _is_safely_delivered(self, segment: _Segment, now: float) -> bool:
        sent = segment is not self._segments[-1] and not segment.unsent
        return sent and segment.sent_at < min(self._since_at, now - KEEP_SENT_SECONDS)

    def record_answered_heartbeat(self, sent_at: float, sign: HeartbeatId) -> None:
        """Record that the coordinator answered a heartbeat sent at that time."""
        self._heartbeats.append((sent_at, sign))
        while self._heartbeats and self._heartbeats[0][0] <= self._now() - KEEP_SENT_SECONDS:
            self._since_at, self.safe_heartbeat = self._heartbeats.popleft()

    def requeue_sent(self) -> int:
        """Send kept messages again to a restarted server, which may have lost them; returns their pages."""
        self._resends += 1
        pages = sum(telling.stored_pages for _, telling in self._sent)
        for segment, telling in self._sent:
            segment.unsent += 1
            self.unsent_pages += telling.stored_pages
        self._queue.extendleft(reversed(self._sent))
        self._sent.clear()
        return pages

    # -- checkpoint

    def roll_back_to_checkpoint(self) -> None:
        make_directory(self._directory)
        kept = {self._path(segment.number) for segment in self._segments}
        for path in self._directory.glob("tell-*.log"):
            if path not in kept:
                path.unlink()
        for segment in self._segments:
            segment.log.roll_back_to_checkpoint()

    def seal(self) -> SealedPart[OutboxState]:
        now = self._now()
        if self._segments and self._segments[-1].log.length and now - self._segments[-1].begun_at > KEEP_SENT_SECONDS:
            self._begin_segment()  # so that the one before can be deleted later
        while len(self._segments) > 1 and self._is_safely_delivered(self._segments[0], now):
            segment = self._segments.popleft()
            segment.log.close()
            self._obsolete_files.append(segment.log.path)
        lengths = tuple((segment.number, segment.log.flush()) for segment in self._segments)
        state = OutboxState(lengths, self._agent, self._incarnation, self._done, self.safe_heartbeat)
        return SealedPart(state, [segment.log.path for segment in self._segments])

    def on_checkpoint_committed(self) -> None:
        self._queue.extend(self._waiting_for_checkpoint)
        self._waiting_for_checkpoint.clear()
        for path in self._obsolete_files:
            path.unlink(missing_ok=True)
        self._obsolete_files.clear()

    def close(self) -> None:
        for segment in self._segments:
            segment.log.close()


def stored_link_messages(directory: Path, last: Checkpoint | None) -> Iterator[LinksMessage | RetryMessage]:
    """Links that an agent still has to send or sent recently, as of a checkpoint; URLs to retry included."""
    for number, length in outbox_state_of(last).segments:
        path = directory / f"tell-{number}.log"
        for _, record in read_records(path, length=length):
            telling = decode_record(path, _decode, record)
            if not isinstance(telling, OutcomesMessage):
                yield telling


def outbox_state_of(last: Checkpoint | None) -> OutboxState:
    """State in the last checkpoint; empty for a crawl that was never part of a cluster."""
    return (
        last.decode_part(CHECKPOINT_PART, OutboxState)
        if last is not None and CHECKPOINT_PART in last.parts
        else OutboxState()
    )


_decode_outcome = msgspec.msgpack.Decoder(OutcomeRow).decode
_KINDS = list(OutcomeKind)


class OutcomeKindLookup:
    """Kinds of the outcomes that this agent has; and the log of those that the coordinator rejected."""

    def __init__(self, home: CrawlDir, last: Checkpoint | None):
        self._home, self._seed = home, home.identity.key_seed
        self.rejected_log = DurableLog("unbooked", home / "unbooked.log", last)
        self.rejected_count = 0
        self._rejected: dict[int, str] = {}  # by key
        # sorted; indices into `_KINDS`
        self._keys, self._kind_indices = np.zeros(0, np.uint64), np.zeros(0, np.uint8)
        self._read_length = 0  # length of the log that was read

    def record_rejected(self, urls: Sequence[AckedUrl], now: float) -> None:
        """Mark our copies of URLs whose outcome other agents report; the copies stay."""
        self.rejected_count += len(urls)
        for url in urls:
            self.rejected_log.append(msgspec.msgpack.encode((url.url, now)))
            self._rejected[url.key] = url.kind

    def kinds_of(self, keys: Sequence[int]) -> list[str]:
        """Kind of each key's first outcome, whatever polls changed; "" if no checkpoint holds it yet."""
        if any(key not in self._rejected for key in keys):
            self._read_new_outcomes()
        return [self._rejected.get(key) or self._kind_of(key) for key in keys]

    def _kind_of(self, key: int) -> str:
        at = int(self._keys.searchsorted(np.uint64(key), "right")) - 1  # the last of equal keys
        return _KINDS[self._kind_indices[at]].value if at >= 0 and self._keys[at] == key else ""

    def _read_new_outcomes(self) -> None:
        last = read_checkpoint(self._home)
        length = sealed_outcome_bytes(last) if last is not None else 0
        if length <= self._read_length:
            return
        keys, kind_indices = list[int](), list[int]()
        for _, record in read_records(self._home / "outcomes.log", start=self._read_length, length=length):
            row = _decode_outcome(record)
            if not row.polled and row.kind is not OutcomeKind.WITHDRAWN:
                keys.append(key_of(row.url, self._seed))
                kind_indices.append(_KINDS.index(row.kind))
        all_keys = np.concatenate([self._keys, np.array(keys, np.uint64)])
        order = all_keys.argsort(kind="stable")  # the latest row of a key comes last
        self._keys = all_keys[order]
        self._kind_indices = np.concatenate([self._kind_indices, np.array(kind_indices, np.uint8)])[order]
        self._read_length = length
