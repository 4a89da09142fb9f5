"""Log of the distribution policy's inputs and decisions, for replay in the lab.

The observer receives every input of the policy, in order, and every decision, and never
influences them. Replaying the inputs through a distributor must give the same decisions.

One file for the whole crawl, with one run per process. A run starts with a `RunStart`,
followed by blocks of 32-bit words. Four bits name the event, the others its subject, as a
number in the order in which names were first mentioned. A block lists the new names.
Blocks are compressed, with the low bytes of all words first, since these differ most.

The log is not part of the crawl's durable state: the crawl does not wait for the disk, a
torn tail is cut, and rows lost in a kill do not matter. It must fill neither the disk nor
the memory with names, so it ends for good at its limit: a log with a gap could not be replayed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from pathlib import Path

import msgspec
import numpy as np

from fieldmouse.storage.log import BestEffortLog, read_records
from fieldmouse.url import Host

_BLOCK = 1 << 15  # words collected before they are written
_NAMES = 1 << 18  # hosts and addresses in one run; some 250 bytes of memory each
_ROOM = 64  # bytes kept free for the last record
TICK = 0.1  # seconds between two timestamps
_BITS = 4
_encode = msgspec.msgpack.Encoder().encode


class EventKind(IntEnum):
    """Kind of event; the methods of `DecisionObserver` say more."""

    ARRIVED = 0  # host
    SEATED = 1  # host, urls
    HELD = 2  # host, urls
    KNOWN = 3  # host, address
    LOCATED = 4  # host, address
    WIDTH = 5  # of the front, from now on
    FED = 6  # urls out
    TAKEN = 7  # URLs out
    LEFT = 8  # host, urls
    TICK = 9  # tenths of a second since the start
    NAMED = 10  # host of the URL drawn next, which was waiting before this run
    ONLINE = 11  # the URL drawn went online
    STORED = 12  # the URL drawn went to its host's queue
    RECALLED = 13  # host, urls
    SENT_OFF = 14  # host, urls
    RESTED = 15  # host, 0; 1 if its rest continues after a restart


_TWO_WORDS = "SEATED HELD KNOWN LOCATED LEFT RECALLED SENT_OFF RESTED"
TWO_WORD_EVENTS = frozenset(EventKind[name] for name in _TWO_WORDS.split())

#: Event: an `EventKind`, its subject or amount, and the second word or 0.
Event = tuple[int, int, int]


class RunStart(msgspec.Struct, frozen=True, tag="start", array_like=True):
    """Start of a run: the policy, and the state of the frontier."""

    at: float
    policy: str
    options: dict[str, int | float | str | bool | None]
    batch: int
    unlisted: int


class DecisionBlock(msgspec.Struct, frozen=True, tag="block", array_like=True):
    names: list[str]
    count: int
    words: bytes


class RunEnd(msgspec.Struct, frozen=True, tag="end", array_like=True):
    why: str  # "closed" or "full"


_decode = msgspec.msgpack.Decoder(RunStart | DecisionBlock | RunEnd).decode


class DecisionObserver:
    """Observer that ignores all events: first the policy's inputs, then its decisions."""

    def run_started(self, now: float, *, unlisted: int, batch: int) -> None:
        """`unlisted` URLs were waiting in the source before; `batch` URLs are read at once from a host's
        queue."""

    def urls_discovered(self, hosts: Iterable[Host]) -> None:
        """URLs of these hosts joined the source, in this order."""

    def backlog_restored(self, host: Host, urls: int) -> None:
        """The host had URLs offline before."""

    def urls_put_online_without_decision(self, host: Host, urls: int) -> None:
        """URLs went online without a decision of the policy: they were online before, or are tried again."""

    def known_address_shown_to_policy(self, host: Host, address: str) -> None:
        """The policy is shown the host's address, which has not changed."""

    def ip_address_seen(self, host: Host, address: str) -> None:
        """A visit showed the host's address; "" once its URLs are answered without a request."""

    def no_host_ready(self, width: int, out: int) -> None:
        """No host was ready for a fetch worker: the front may grow to `width`; `out` URLs are with fetch
        workers."""

    def visit_started(self, width: int, out: int) -> None:
        """A fetch worker took a host visit: the front should be `width`, and is widened if narrower."""

    def visit_ended(self, host: Host, urls: int) -> None:
        """A fetch worker returned the host after using `urls` of its URLs."""

    def time_passed(self, now: float) -> None: ...

    def url_placed(self, host: Host, online: bool) -> None:
        """The oldest URL of the source was drawn; it went online, or to its host's queue."""

    def urls_read_from_queue(self, host: Host, urls: int) -> None: ...

    def host_taken_offline(self, host: Host, urls: int) -> None:
        """The host's address was crowded: its online URLs wait offline again."""

    def rest_continued(self, host: Host) -> None:
        """A host with a backlog rests since before the restart, and gets no place until its rest ends."""

    def rest_ended(self, host: Host) -> None:
        """A host that left its place while it rested may have one again."""

    def flush(self) -> None: ...

    def close(self) -> None: ...


class DecisionLog(DecisionObserver):
    """`DecisionObserver` that writes to a file. `policy` and `options` name the policy for `lab replay`."""

    def __init__(self, path: Path, *, limit: int, policy: str, options: Mapping[str, object]) -> None:
        """`limit` bounds the file, in bytes."""
        self._log = BestEffortLog(path)
        self._limit, self._policy, self._options = limit, policy, dict(options)
        self._started = self._next_tick = 0.0
        self._unlisted = 0
        self._width = -1
        self._numbers: dict[str, int] = {}
        self._homes: list[str] = []  # last known address of each host; "" in entries of addresses
        self._names: list[str] = []  # new names, not written yet
        self._words: list[int] = []
        self.full = self._begun = False

    def run_started(self, now: float, *, unlisted: int, batch: int) -> None:
        self._begun = True
        self._started = self._next_tick = now
        self._unlisted = unlisted
        options = msgspec.convert(self._options, dict[str, int | float | str | bool | None])
        self._write_record(RunStart(now, self._policy, options, batch, unlisted))

    def urls_discovered(self, hosts: Iterable[Host]) -> None:
        if self.full:
            return
        get, meet = self._numbers.get, self._assign_number
        words = self._words
        for host in hosts:
            number = get(host)
            words.append((meet(host) if number is None else number) << _BITS)
        if len(words) >= _BLOCK:
            self._write_block()

    def _assign_number(self, name: str) -> int:
        number = self._numbers[name] = len(self._homes)
        self._homes.append("")
        self._names.append(name)
        return number

    def _number_of_name(self, name: str) -> int:
        number = self._numbers.get(name)
        return self._assign_number(name) if number is None else number

    def _record_host_event(self, act: EventKind, host: Host, second: int) -> None:
        if not self.full:
            self._words += (self._number_of_name(host) << _BITS | act, second)
            if len(self._words) >= _BLOCK:  # a resumed crawl lists all its hosts at once
                self._write_block()

    def backlog_restored(self, host: Host, urls: int) -> None:
        self._record_host_event(EventKind.HELD, host, urls)

    def urls_put_online_without_decision(self, host: Host, urls: int) -> None:
        self._record_host_event(EventKind.SEATED, host, urls)

    def known_address_shown_to_policy(self, host: Host, address: str) -> None:
        self._record_address(EventKind.KNOWN, host, address)

    def ip_address_seen(self, host: Host, address: str) -> None:
        self._record_address(EventKind.LOCATED, host, address)

    def _record_address(self, act: EventKind, host: Host, address: str) -> None:
        if self.full:
            return
        number = self._number_of_name(host)
        if self._homes[number] != address:
            self._homes[number] = address
            self._words += (number << _BITS | act, self._number_of_name(address))

    def no_host_ready(self, width: int, out: int) -> None:
        self._record_event_with_front_size(EventKind.FED, width, out)

    def visit_started(self, width: int, out: int) -> None:
        self._record_event_with_front_size(EventKind.TAKEN, width, out)

    def _record_event_with_front_size(self, act: EventKind, width: int, out: int) -> None:
        if self.full:
            return
        words = self._words
        if width != self._width:
            self._width = width
            words.append(width << _BITS | EventKind.WIDTH)
        words.append(out << _BITS | act)
        if len(words) >= _BLOCK:
            self._write_block()

    def visit_ended(self, host: Host, urls: int) -> None:
        self._record_host_event(EventKind.LEFT, host, urls)

    def time_passed(self, now: float) -> None:
        if now >= self._next_tick and not self.full:
            tenths = int((now - self._started) / TICK)
            self._next_tick = self._started + (tenths + 1) * TICK
            self._words.append(tenths << _BITS | EventKind.TICK)

    def url_placed(self, host: Host, online: bool) -> None:
        if self.full:
            return
        if self._unlisted:
            self._unlisted -= 1
            self._words.append(self._number_of_name(host) << _BITS | EventKind.NAMED)
        self._words.append(EventKind.ONLINE if online else EventKind.STORED)

    def urls_read_from_queue(self, host: Host, urls: int) -> None:
        self._record_host_event(EventKind.RECALLED, host, urls)

    def host_taken_offline(self, host: Host, urls: int) -> None:
        self._record_host_event(EventKind.SENT_OFF, host, urls)

    def rest_continued(self, host: Host) -> None:
        self._record_host_event(EventKind.RESTED, host, 1)

    def rest_ended(self, host: Host) -> None:
        self._record_host_event(EventKind.RESTED, host, 0)

    def flush(self) -> None:
        """Write everything collected, at every checkpoint, without waiting for the disk."""
        if not self.full:
            self._write_block()
            self._log.flush()

    def close(self) -> None:
        """Close the file; a run that never began writes nothing."""
        if self._begun:
            self._begun = False
            self.flush()
            if not self.full:
                self._log.append(_encode(RunEnd("closed")))
        self._log.close()

    def _write_block(self) -> None:
        words, self._words = self._words, []
        names, self._names = self._names, []
        if words:
            planes = np.array(words, "<u4").view(np.uint8).reshape(-1, 4).T
            self._write_record(DecisionBlock(names, len(words), zlib.compress(planes.tobytes(), 1)))

    def _write_record(self, record: RunStart | DecisionBlock) -> None:
        encoded = _encode(record)
        if self._log.length + len(encoded) + _ROOM <= self._limit and len(self._homes) <= _NAMES:
            self._log.append(encoded)
            return
        self.full = True
        self._numbers, self._homes, self._words = {}, [], []
        if self._log.length and isinstance(record, DecisionBlock):
            self._log.append(_encode(RunEnd("full")))
        self._log.flush()


class RecordedRun:
    """Events of one process. `names` maps numbers to hosts and addresses."""

    def __init__(self, path: Path, start: RunStart) -> None:
        self.start = start
        self.names: list[str] = []
        self.ended = ""  # "closed", "full", or "" for a kill
        self._path = path
        self._first = self._last = 0  # offsets: the start of its blocks, and the start of the last one
        self._words = 0

    def __len__(self) -> int:
        """Number of words, which is about the number of events."""
        return self._words

    def add_block(self, offset: int, block: DecisionBlock) -> None:
        """Add the names and offset of another block."""
        self._first, self._last = self._first or offset, offset
        self._words += block.count
        self.names += block.names

    def events(self) -> Iterator[Event]:
        """Yield all events in order, reading one block at a time."""
        for offset, record in read_records(self._path, start=self._first):
            block = _decode(record)
            if offset > self._last or not isinstance(block, DecisionBlock):
                return
            planes = np.frombuffer(zlib.decompress(block.words), np.uint8).reshape(4, -1)
            words = iter(np.ascontiguousarray(planes.T).view("<u4").ravel().tolist())
            for word in words:
                act = word & (1 << _BITS) - 1
                yield act, word >> _BITS, next(words) if act in TWO_WORD_EVENTS else 0


def read_runs(path: Path) -> list[RecordedRun]:
    """Read every run in the file, oldest first; reading stops at a torn record."""
    runs: list[RecordedRun] = []
    if path.exists():
        for offset, record in read_records(path):
            match _decode(record):
                case RunStart() as start:
                    runs.append(RecordedRun(path, start))
                case DecisionBlock() as block:
                    runs[-1].add_block(offset, block)
                case RunEnd(why):
                    runs[-1].ended = why
    return runs
