"""What an agent has to tell the board, kept until that is safe there.

Two kinds of things: links that were found (`FoundLinks`), and outcomes that are durable (`DoneUrls`).
They are told in the order in which they came, so the links of a page are on the board before its outcome
is. All of it is a part of the checkpoint: what a page said is as durable as the page. An outcome is told
only once the checkpoint that holds it is.

A server that is killed forgets what it heard last. So what was told is kept for a while, and told again
to a server that was started anew; the board counts nothing twice. It is kept until the board has heard a
later sign of life, and for a while after that: `since` is that sign, noted in the checkpoint in which what
was told before is not kept any more. A board that never heard it has an old copy of its data, and is told
nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path

import msgspec

from fieldmouse.balancer.board.heard import ANY, Heard
from fieldmouse.balancer.board.pagelimit import PAGE
from fieldmouse.crawldir import Checkpoint, Log, Sealed, make_directory, records, understood
from fieldmouse.url import Host

PART = "board"
KEPT = 30.0
"""Seconds for which what was told is kept: an append-only file is synced every second, or every two."""
_SEGMENT = 4 << 20  # bytes


class FoundLinks(msgspec.Struct, frozen=True, array_like=True, tag="found"):
    """Links of one host."""

    host: Host
    links: tuple[tuple[int, bytes], ...]
    is_seed: bool = False


class DoneUrl(msgspec.Struct, frozen=True, array_like=True):
    key: int
    url: str
    kind: str  # of its outcome


class DoneUrls(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """Outcomes of one checkpoint, by the lease they belong to: host, epoch and URLs."""

    incarnation: int
    leases: tuple[tuple[Host, int, tuple[DoneUrl, ...]], ...]
    number: int = 0  # grows from one to the next; 0 where nothing is kept

    @property
    def pages(self) -> int:
        return sum(url.kind == PAGE for _, _, urls in self.leases for url in urls)


class ForgivenUrls(msgspec.Struct, frozen=True, array_like=True, tag="forgiven"):
    """Outcomes of one host that are taken back: as `board.forgiving.TakenBack`."""

    host: Host
    links: tuple[tuple[int, bytes], ...]
    kinds: tuple[str, ...]
    number: int  # grows with those of `DoneUrls`


Telling = FoundLinks | DoneUrls | ForgivenUrls


def _pages(telling: Telling) -> int:
    return telling.pages if isinstance(telling, DoneUrls) else 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Telling).decode


class TellingsState(msgspec.Struct, frozen=True):
    """The part `board` of a checkpoint."""

    segments: tuple[tuple[int, int], ...] = ()  # number and length of each file, the oldest first
    agent: str = ""
    incarnation: int = 0
    done: int = 0  # the number of the last `DoneUrls`
    since: Heard = ANY  # the board has heard it after all that is not kept any more


class _Segment:
    def __init__(self, number: int, log: Log, now: float) -> None:
        self.number, self.log, self.begun_at = number, log, now
        self.untold = 0  # tellings in it
        self.told_at = now  # when the last one was


class Tellings:
    """A part of the checkpoint, and the queue that the messenger empties."""

    name = PART

    def __init__(self, directory: Path, last: Checkpoint | None, now: Callable[[], float]):
        state = sealed_tellings(last)
        self._directory, self._now = directory, now
        self.before, self._agent, self._incarnation = state, state.agent, state.incarnation
        self._done = state.done
        self.since, self._since_at = state.since, -inf
        self._signs: deque[tuple[float, Heard]] = deque()  # heard later, and when each was sent
        self._segments: deque[_Segment] = deque()
        self._queue: deque[tuple[_Segment, Telling]] = deque()  # to be told, the oldest first
        self._told: deque[tuple[_Segment, Telling]] = deque()  # told, and perhaps not safe yet
        self._sealed: list[tuple[_Segment, Telling]] = []  # outcomes that wait for the journal
        self._leftovers: list[Path] = []
        self.untold_pages = 0  # that the outcomes count which were not told yet
        self._again = self._again_at_next = (
            0  # how often all was to be told again, also when `next` was asked
        )
        for number, length in state.segments:
            segment = _Segment(number, Log(self._path(number), length), now())
            self._segments.append(segment)
            for _, record in records(segment.log.path, length=length):
                self._enqueue(segment, understood(segment.log.path, _decode, record))
        self._number = state.segments[-1][0] if state.segments else 0

    def _path(self, number: int) -> Path:
        return self._directory / f"tell-{number}.log"

    def _enqueue(self, segment: _Segment, telling: Telling) -> None:
        segment.untold += 1
        self.untold_pages += _pages(telling)
        self._queue.append((segment, telling))

    # -- the agent's side

    def call(self, agent: str, incarnation: int) -> None:
        """This is who we are from now on."""
        self._agent, self._incarnation = agent, incarnation

    def found(self, found: FoundLinks) -> None:
        """Links were found: they are told as soon as may be."""
        segment = self._current()
        segment.log.append(_encode(found))
        self._enqueue(segment, found)

    def done(self, leases: Mapping[tuple[Host, int], Sequence[DoneUrl]]) -> None:
        """These are settled in the checkpoint at hand."""
        self._done += 1
        told = DoneUrls(
            self._incarnation,
            tuple((host, epoch, tuple(urls)) for (host, epoch), urls in leases.items()),
            self._done,
        )
        segment = self._current()
        segment.log.append(_encode(told))
        segment.untold += 1
        self.untold_pages += _pages(told)
        self._sealed.append((segment, told))

    def forgiven(self, host: Host, links: Sequence[tuple[int, bytes]], kinds: Sequence[str]) -> None:
        """These were settled, and are not any more in the checkpoint at hand: they wait again."""
        self._done += 1
        told = ForgivenUrls(host, tuple(links), tuple(kinds), self._done)
        segment = self._current()
        segment.log.append(_encode(told))
        segment.untold += 1
        self._sealed.append((segment, told))

    def known(self, lease: tuple[Host, int], urls: Sequence[DoneUrl]) -> None:
        """These were settled long ago. Nothing need be kept: whoever is granted them again says it again."""
        self._enqueue(self._current(), DoneUrls(0, ((*lease, tuple(urls)),)))

    def _current(self) -> _Segment:
        if not self._segments or self._segments[-1].log.length > _SEGMENT:
            self._begin_segment()
        return self._segments[-1]

    def _begin_segment(self) -> None:
        self._number += 1
        self._segments.append(_Segment(self._number, Log(self._path(self._number)), self._now()))

    # -- the messenger's side

    def __len__(self) -> int:
        """Tellings that were not told yet."""
        return len(self._queue) + len(self._sealed)

    def next(self, most: int) -> list[Telling]:
        """The oldest ones of one kind, that can be told together: links of many hosts, or outcomes."""
        batch: list[Telling] = []
        weight = 0
        self._again_at_next = self._again
        for _, telling in self._queue:
            if batch and type(telling) is not type(batch[0]):
                break
            batch.append(telling)
            weight += len(telling.links) if isinstance(telling, FoundLinks) else most
            if weight >= most:
                break
        return batch

    def untold_keys(self) -> dict[tuple[Host, int], set[int]]:
        """Of the outcomes that were not told yet, by the lease they belong to."""
        keys: dict[tuple[Host, int], set[int]] = {}
        for _, telling in (*self._queue, *self._sealed):
            if isinstance(telling, DoneUrls):
                for host, epoch, urls in telling.leases:
                    keys.setdefault((host, epoch), set()).update(url.key for url in urls)
        return keys

    def told(self, count: int) -> int:
        """The board has the oldest so many, those that `next` gave; returns how many pages these count."""
        if self._again != self._again_at_next:
            return 0  # the server may be another one than it was told to, and the oldest are others, too
        now, untold = self._now(), self.untold_pages
        for _ in range(count):
            segment, telling = self._queue.popleft()
            segment.untold -= 1
            self.untold_pages -= _pages(telling)
            segment.told_at = now
            self._told.append((segment, telling))
        while self._told and self._is_safe(self._told[0][0], now):
            self._told.popleft()
        return untold - self.untold_pages

    def _is_safe(self, segment: _Segment, now: float) -> bool:
        told = segment is not self._segments[-1] and not segment.untold
        return told and segment.told_at < min(self._since_at, now - KEPT)

    def heard(self, sent_at: float, sign: Heard) -> None:
        """The board has heard a sign of life that was sent then."""
        self._signs.append((sent_at, sign))
        while self._signs and self._signs[0][0] <= self._now() - KEPT:
            self._since_at, self.since = self._signs.popleft()

    def tell_again(self) -> int:
        """The server is another one, and may have forgotten the last of it; returns the pages in that."""
        self._again += 1
        pages = sum(_pages(telling) for _, telling in self._told)
        for segment, telling in self._told:
            segment.untold += 1
            self.untold_pages += _pages(telling)
        self._queue.extendleft(reversed(self._told))
        self._told.clear()
        return pages

    # -- a part of the checkpoint

    def begin(self) -> None:
        make_directory(self._directory)
        kept = {self._path(segment.number) for segment in self._segments}
        for path in self._directory.glob("tell-*.log"):
            if path not in kept:
                path.unlink()
        for segment in self._segments:
            segment.log.begin()

    def seal(self) -> Sealed[TellingsState]:
        now = self._now()
        if self._segments and self._segments[-1].log.length and now - self._segments[-1].begun_at > KEPT:
            self._begin_segment()  # so that the one before can go some day
        while len(self._segments) > 1 and self._is_safe(self._segments[0], now):
            segment = self._segments.popleft()
            segment.log.close()
            self._leftovers.append(segment.log.path)
        lengths = tuple((segment.number, segment.log.flush()) for segment in self._segments)
        state = TellingsState(lengths, self._agent, self._incarnation, self._done, self.since)
        return Sealed(state, [segment.log.path for segment in self._segments])

    def committed(self) -> None:
        self._queue.extend(self._sealed)
        self._sealed.clear()
        for path in self._leftovers:
            path.unlink(missing_ok=True)
        self._leftovers.clear()

    def close(self) -> None:
        for segment in self._segments:
            segment.log.close()


def found_links(directory: Path, last: Checkpoint | None) -> Iterator[FoundLinks | ForgivenUrls]:
    """Links that an agent had to tell, or had told lately, as of a checkpoint; those it forgave, too."""
    for number, length in sealed_tellings(last).segments:
        path = directory / f"tell-{number}.log"
        for _, record in records(path, length=length):
            telling = understood(path, _decode, record)
            if not isinstance(telling, DoneUrls):
                yield telling


def sealed_tellings(last: Checkpoint | None) -> TellingsState:
    """As the last checkpoint knows it; nothing yet for a crawl that was never on a network."""
    return last.state(PART, TellingsState) if last is not None and PART in last.parts else TellingsState()
