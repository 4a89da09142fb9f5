"""Outbox of an agent: messages to the coordinator, kept until they are safe there, and their sender.

There are two main kinds: links found and durable outcomes. They are sent in the order in which they came,
so the links of a page reach the coordinator before its outcome. The outbox is part of the checkpoint: the
links of a page are as durable as the page. An outcome is sent only after the checkpoint that holds it is
durable.

A killed server loses its last seconds. So sent messages are kept for a while and sent again to a
restarted server; the coordinator counts nothing twice. They are kept until the coordinator has recorded a
later heartbeat, and for a while after that. That heartbeat is stored in the first checkpoint without the
messages sent before it. A coordinator that does not know it has an old copy of its data, and nothing is
sent to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path

import msgspec

from fieldmouse.cluster.coordinator import (
    ANY_HEARTBEAT,
    PAGE_KIND,
    AckBatch,
    AckedKeys,
    AgentId,
    Coordinator,
    HeartbeatMark,
    LeaseId,
    LinkOffer,
    RetryBatch,
    SiteBounds,
)
from fieldmouse.cluster.decoding import pack_urls
from fieldmouse.errors import AgentFenced
from fieldmouse.policy.scope import site_for_limits
from fieldmouse.storage.checkpoint import Checkpoint, Sealed
from fieldmouse.storage.log import Log, decode_record, make_directory, records
from fieldmouse.url import Host

CHECKPOINT_PART = "board"
#: Seconds for which sent messages are kept: an append-only file is synced every second or two.
KEEP_SENT_SECONDS = 30.0
_SEGMENT_BYTES = 4 << 20  # bytes


class LinksMessage(msgspec.Struct, frozen=True, array_like=True, tag="found"):
    """Links of one host."""

    host: Host
    links: tuple[tuple[int, bytes], ...]
    is_seed: bool = False


class AckedUrl(msgspec.Struct, frozen=True, array_like=True):
    key: int
    url: str
    kind: str  # kind of its outcome


class AckMessage(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """Outcomes of one checkpoint by lease: host, epoch and URLs."""

    incarnation: int
    leases: tuple[tuple[Host, int, tuple[AckedUrl, ...]], ...]
    number: int = 0  # grows with each message; 0 for a message that is not kept

    @property
    def pages(self) -> int:
        return sum(url.kind == PAGE_KIND for _, _, urls in self.leases for url in urls)


class RetryMessage(msgspec.Struct, frozen=True, array_like=True, tag="forgiven"):
    """Failed outcomes of one host to retry: as `coordinator.RetryBatch`."""

    host: Host
    links: tuple[tuple[int, bytes], ...]
    kinds: tuple[str, ...]
    number: int  # shares the counter of `AckMessage`


OutboxMessage = LinksMessage | AckMessage | RetryMessage


def _pages(telling: OutboxMessage) -> int:
    return telling.pages if isinstance(telling, AckMessage) else 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutboxMessage).decode


class OutboxState(msgspec.Struct, frozen=True):
    """State in the checkpoint, under the name `board`."""

    segments: tuple[tuple[int, int], ...] = ()  # number and length of each file, oldest first
    agent: str = ""
    incarnation: int = 0
    done: int = 0  # number of the last `AckMessage` or `RetryMessage`
    since: HeartbeatMark = ANY_HEARTBEAT  # heartbeat known to a coordinator that received all messages no longer kept


class _Segment:
    def __init__(self, number: int, log: Log, now: float) -> None:
        self.number, self.log, self.begun_at = number, log, now
        self.unsent = 0  # messages in it that were not sent
        self.sent_at = now  # when the last one was sent


class Outbox:
    """Durable queue of messages that the session empties; takes part in checkpoints."""

    name = CHECKPOINT_PART

    def __init__(self, directory: Path, last: Checkpoint | None, now: Callable[[], float]):
        state = checkpointed_outbox(last)
        self._directory, self._now = directory, now
        self.restored_state, self._agent, self._incarnation = state, state.agent, state.incarnation
        self._done = state.done
        self.safe_heartbeat, self._since_at = state.since, -inf
        self._heartbeats: deque[tuple[float, HeartbeatMark]] = deque()  # later heartbeats, and when each was sent
        self._segments: deque[_Segment] = deque()
        self._queue: deque[tuple[_Segment, OutboxMessage]] = deque()  # to be sent, oldest first
        self._sent: deque[tuple[_Segment, OutboxMessage]] = deque()  # sent, and perhaps not safe yet
        self._waiting_for_checkpoint: list[tuple[_Segment, OutboxMessage]] = []
        self._obsolete_files: list[Path] = []
        self.unsent_pages = 0  # pages among the outcomes that were not sent
        self._resends = self._resends_at_next = 0  # calls of `resend_all`, now and at the last `next_batch`
        for number, length in state.segments:
            segment = _Segment(number, Log(self._path(number), length), now())
            self._segments.append(segment)
            for _, record in records(segment.log.path, length=length):
                self._enqueue(segment, decode_record(segment.log.path, _decode, record))
        self._number = state.segments[-1][0] if state.segments else 0

    def _path(self, number: int) -> Path:
        return self._directory / f"tell-{number}.log"

    def _enqueue(self, segment: _Segment, telling: OutboxMessage) -> None:
        segment.unsent += 1
        self.unsent_pages += _pages(telling)
        self._queue.append((segment, telling))

    # -- the agent's side

    def set_agent(self, agent: str, incarnation: int) -> None:
        """Set the identity of this agent from now on."""
        self._agent, self._incarnation = agent, incarnation

    def add_links(self, message: LinksMessage) -> None:
        """Add found links: they are sent as soon as possible."""
        segment = self._current()
        segment.log.append(_encode(message))
        self._enqueue(segment, message)

    def add_outcomes(self, leases: Mapping[tuple[Host, int], Sequence[AckedUrl]]) -> None:
        """Add outcomes that the coming checkpoint holds."""
        self._done += 1
        message = AckMessage(
            self._incarnation, tuple((host, epoch, tuple(urls)) for (host, epoch), urls in leases.items()), self._done
        )
        segment = self._current()
        segment.log.append(_encode(message))
        segment.unsent += 1
        self.unsent_pages += _pages(message)
        self._waiting_for_checkpoint.append((segment, message))

    def add_retries(self, host: Host, links: Sequence[tuple[int, bytes]], kinds: Sequence[str]) -> None:
        """Add outcomes to retry: the coming checkpoint no longer counts them as settled."""
        self._done += 1
        message = RetryMessage(host, tuple(links), tuple(kinds), self._done)
        segment = self._current()
        segment.log.append(_encode(message))
        segment.unsent += 1
        self._waiting_for_checkpoint.append((segment, message))

    def add_known_outcomes(self, lease: tuple[Host, int], urls: Sequence[AckedUrl]) -> None:
        """Add outcomes settled long ago. They are not kept: a new grant of them repeats the message."""
        self._enqueue(self._current(), AckMessage(0, ((*lease, tuple(urls)),)))

    def _current(self) -> _Segment:
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

    def unsent_keys(self) -> dict[tuple[Host, int], set[int]]:
        """Keys of the outcomes not sent yet, by lease."""
        keys: dict[tuple[Host, int], set[int]] = {}
        for _, telling in (*self._queue, *self._waiting_for_checkpoint):
            if isinstance(telling, AckMessage):
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
            self.unsent_pages -= _pages(telling)
            segment.sent_at = now
            self._sent.append((segment, telling))
        while self._sent and self._is_safe(self._sent[0][0], now):
            self._sent.popleft()
        return untold - self.unsent_pages

    def _is_safe(self, segment: _Segment, now: float) -> bool:
        sent = segment is not self._segments[-1] and not segment.unsent
        return sent and segment.sent_at < min(self._since_at, now - KEEP_SENT_SECONDS)

    def note_heartbeat(self, sent_at: float, sign: HeartbeatMark) -> None:
        """Record that the coordinator answered a heartbeat sent at that time."""
        self._heartbeats.append((sent_at, sign))
        while self._heartbeats and self._heartbeats[0][0] <= self._now() - KEEP_SENT_SECONDS:
            self._since_at, self.safe_heartbeat = self._heartbeats.popleft()

    def resend_all(self) -> int:
        """Send kept messages again to a restarted server, which may have lost them; returns their pages."""
        self._resends += 1
        pages = sum(_pages(telling) for _, telling in self._sent)
        for segment, telling in self._sent:
            segment.unsent += 1
            self.unsent_pages += _pages(telling)
        self._queue.extendleft(reversed(self._sent))
        self._sent.clear()
        return pages

    # -- checkpoint

    def begin(self) -> None:
        make_directory(self._directory)
        kept = {self._path(segment.number) for segment in self._segments}
        for path in self._directory.glob("tell-*.log"):
            if path not in kept:
                path.unlink()
        for segment in self._segments:
            segment.log.begin()

    def seal(self) -> Sealed[OutboxState]:
        now = self._now()
        if self._segments and self._segments[-1].log.length and now - self._segments[-1].begun_at > KEEP_SENT_SECONDS:
            self._begin_segment()  # so that the one before can be deleted later
        while len(self._segments) > 1 and self._is_safe(self._segments[0], now):
            segment = self._segments.popleft()
            segment.log.close()
            self._obsolete_files.append(segment.log.path)
        lengths = tuple((segment.number, segment.log.flush()) for segment in self._segments)
        state = OutboxState(lengths, self._agent, self._incarnation, self._done, self.safe_heartbeat)
        return Sealed(state, [segment.log.path for segment in self._segments])

    def committed(self) -> None:
        self._queue.extend(self._waiting_for_checkpoint)
        self._waiting_for_checkpoint.clear()
        for path in self._obsolete_files:
            path.unlink(missing_ok=True)
        self._obsolete_files.clear()

    def close(self) -> None:
        for segment in self._segments:
            segment.log.close()


def stored_messages(directory: Path, last: Checkpoint | None) -> Iterator[LinksMessage | RetryMessage]:
    """Links that an agent still has to send or sent recently, as of a checkpoint; URLs to retry included."""
    for number, length in checkpointed_outbox(last).segments:
        path = directory / f"tell-{number}.log"
        for _, record in records(path, length=length):
            telling = decode_record(path, _decode, record)
            if not isinstance(telling, AckMessage):
                yield telling


def checkpointed_outbox(last: Checkpoint | None) -> OutboxState:
    """State in the last checkpoint; empty for a crawl that was never part of a cluster."""
    return (
        last.state(CHECKPOINT_PART, OutboxState)
        if last is not None and CHECKPOINT_PART in last.parts
        else OutboxState()
    )


_MOST_LINKS = 1024  # links sent in one call


class OutboxSender:
    def __init__(
        self,
        board: Coordinator,
        tellings: Outbox,
        *,
        keep_urls: bool,
        bounds: SiteBounds,
        place_new: Callable[[Host], str],
        on_dropped: Callable[[int, int], None],
        on_unbooked: Callable[[Sequence[AckedUrl]], None],
        on_booked: Callable[[int], None],
        on_again: Callable[[int], None],
    ):
        """`place_new` returns the agent that should visit a new host.

        `on_dropped` receives dropped links, `on_unbooked` rejected outcomes, `on_booked` the number of
        pages sent, and `on_again` the number of URLs that wait again.
        """
        self._board, self._tellings, self._keep_urls, self._bounds = board, tellings, keep_urls, bounds
        self._place_new, self._on_dropped, self._on_unbooked = place_new, on_dropped, on_unbooked
        self._on_booked, self._on_again = on_booked, on_again
        self._rejected: set[int] = set()  # keys of our rejected outcomes

    async def send_all(self, name: AgentId) -> None:
        while batch := self._tellings.next_batch(_MOST_LINKS):
            if links := [each for each in batch if isinstance(each, LinksMessage)]:
                await self._send_links(links)
            await self._send_retries(name, [each for each in batch if isinstance(each, RetryMessage)])
            await self._send_outcomes(name, [each for each in batch if isinstance(each, AckMessage)])
            self._on_booked(self._tellings.mark_sent(len(batch)))

    async def _send_links(self, messages: Sequence[LinksMessage]) -> None:
        offers = [
            LinkOffer(message.host, site_for_limits(message.host), message.links, self._place_new(message.host))
            for message in messages
        ]
        seeds = any(message.is_seed for message in messages)
        answer = await self._board.offer_links(offers, self._bounds, seeds=seeds)
        self._on_dropped(answer.dropped_hosts, answer.dropped_urls)

    async def _send_retries(self, name: AgentId, messages: Sequence[RetryMessage]) -> None:
        for message in messages:
            # Rejected outcomes wait already, or belong to other agents.
            outcomes = zip(message.links, message.kinds, strict=True)
            counted = [(row, kind) for row, kind in outcomes if row[0] not in self._rejected]
            rows, kinds = [row for row, _ in counted], [kind for _, kind in counted]
            if rows:
                taken = RetryBatch(message.host, rows, kinds, message.number)
                self._on_again(await self._board.retry_failed(name, taken))

    async def _send_outcomes(self, me: AgentId, messages: Sequence[AckMessage]) -> None:
        for message in messages:
            bookings = [
                AckedKeys(LeaseId(host, epoch), [url.key for url in urls], [url.kind for url in urls])
                for host, epoch, urls in message.leases
            ]
            urls = [url for _, _, leased in message.leases for url in leased]
            packed = pack_urls([url.url for url in urls]) if self._keep_urls else b""
            name = AgentId(me.agent, message.incarnation or me.incarnation)
            try:
                missed = await self._board.ack(name, AckBatch(bookings, packed, message.number))
            except AgentFenced:
                if name == me:
                    raise
                if message.number <= await self._board.last_acked_batch(name):
                    continue  # it counted when it was sent the first time
                missed = [booking.keys for booking in bookings]
            late = {key for keys in missed for key in keys}
            if late:
                self._rejected |= late
                self._on_unbooked([url for url in urls if url.key in late])
