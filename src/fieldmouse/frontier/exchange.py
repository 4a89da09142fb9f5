"""A host moves from one crawl to another, in three steps, and nothing is lost or doubled by a kill.

`release` freezes the host: what waits of it goes to the outbox, and when nothing of it is in the
air any more, the next checkpoint has its parcel. `adopt` takes a parcel in, once, however often it
is sent; with the next checkpoint that is durable, and there is a receipt. `released` forgets the
parcel, for the receipt says that the other has it. So at every moment the host's URLs are in one crawl, or
in a parcel that will be sent again.

Invariant: a URL that was accepted and has no outcome yet stands in one crawl, or in one parcel. Its
key is in the sieve of every crawl where its host ever was; keys there that are neither settled nor
waiting are *foreign*, and added up, so that the books balance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from fieldmouse.clock import Clock
from fieldmouse.errors import ForeignParcel
from fieldmouse.frontier.distributor import Distributor
from fieldmouse.frontier.doors import Where
from fieldmouse.frontier.parcel import Belongings, Parcel, ParcelKeys, ParcelLabel, ParcelLinks, ParcelWriter
from fieldmouse.frontier.parts import FrontierParts
from fieldmouse.frontier.resting import Resting
from fieldmouse.frontier.shipments import Shipments, Taken
from fieldmouse.frontier.workbench import Workbench
from fieldmouse.records import Door, HostState, Link
from fieldmouse.url import Host, host_of, key_of

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Link).decode


@dataclass(frozen=True, slots=True)
class Exchanging:
    """That a crawl exchanges hosts with others, and what it is called among them.

    All of them must have one key secret. `ours` says of a host that never moved whether it is here;
    `belongings` gives a host what others know of it when it leaves. Where it comes to, `unpack` gets
    them, and how many seconds its robots.txt still holds.
    """

    name: str
    ours: Callable[[Host], bool] = lambda host: True
    belongings: Callable[[Host], Belongings] = lambda host: Belongings()
    unpack: Callable[[Host, Belongings, float], None] = lambda host, belongings, seconds: None


class Exchange:
    """The acts by which hosts leave and come; what they leave behind is in `Shipments`."""

    def __init__(
        self, how: Exchanging, parts: FrontierParts, shipments: Shipments, *, distributor: Distributor,
        workbench: Workbench, resting: Resting, clock: Clock, key_seed: int,
    ) -> None:  # fmt: skip
        self._how, self._parts, self._shipments = how, parts, shipments
        self._doors, self._outbox, self._keyring = shipments.doors, shipments.outbox, shipments.keyring
        self._distributor, self._workbench, self._resting = distributor, workbench, resting
        self._clock, self._key_seed = clock, key_seed
        self._secret = key_of("parcel", key_seed)
        self._forwards: dict[Host, str] = {}  # hosts elsewhere whose links are to follow them

    # -- links of hosts that are not here

    def here(self, host: Host) -> bool:
        return self._doors.here(host)

    def admit(self, links: Sequence[Link]) -> list[bool] | None:
        """As `SiteTable.admit`; but a link to a host that is elsewhere goes to the outbox, not remembered."""
        here = [self._doors.here(host_of(link.url)) for link in links]
        if all(here):
            return self._parts.sites.admit(links)
        ours = [link for link, stays in zip(links, here, strict=True) if stays]
        passed = iter(self._parts.sites.admit(ours) or [True] * len(ours))
        for link, stays in zip(links, here, strict=True):
            if not stays:
                self._outbox.tell(host_of(link.url), self._key(link), _encode(link))
        return [stays and next(passed) for stays in here]

    def accepted(self, links: Sequence[Link]) -> None:
        """These passed the sieve: each host's keyring gets its keys."""
        keys: dict[Host, list[int]] = {}
        for link in links:
            keys.setdefault(host_of(link.url), []).append(self._key(link))
        for host, some in keys.items():
            self._keyring.add(host, some)

    def owe(self, host: Host, row: bytes) -> None:
        """This URL waits for a parcel."""
        self._outbox.owe(host, row)

    def _key(self, link: Link) -> int:
        return key_of(link.url, self._key_seed)

    # -- a host leaves

    def release(self, host: Host, to: str) -> None:
        """Let a host go to the crawl of that name; or, if it is elsewhere, let the outbox follow it.

        What was said before stands; after a kill that came before the next checkpoint, say it again.
        """
        where = self._doors.where(host)
        if where is Where.HERE:
            self._doors.move(host, Where.LEAVING, to)
            self.freeze(host)
        elif where is Where.ELSEWHERE and self._outbox.count(host):
            self._forwards[host] = to

    def freeze(self, host: Host) -> None:
        """All of a leaving host that no robot has goes to the outbox."""
        if self._doors.where(host) is not Where.LEAVING:
            return
        front = self._parts.front
        for number in self._resting.withdraw(host):
            self.owe(host, front.live[number])
            front.strike((number,))
        if host not in self._workbench or self._workbench.holds(host):
            for links in self._distributor.withdraw(host):
                for row in links:
                    self.owe(host, row)

    def pack(self) -> int:
        """Make the parcels that can be made now, for the checkpoint at hand; returns the polls in them."""
        polls = 0
        leaving = self._doors.leaving()
        for row in leaving:
            self.freeze(row.host)  # a robot that had it when we were killed gives nothing back
        if leaving:
            air = {host_of(_decode(row).url) for row in self._parts.front.live.values()}
            for row in leaving:
                if row.host not in air and row.host not in self._workbench:
                    polls += self._pack(row.host, row.to, self._parts.hosts.get(row.host))
                    self._doors.move(row.host, Where.ELSEWHERE)
        for host, to in self._forwards.items():
            if self._doors.where(host) is Where.ELSEWHERE and self._outbox.count(host):
                polls += self._pack(host, to, None)
        self._forwards.clear()
        return polls

    def _pack(self, host: Host, to: str, state: HostState | None) -> int:
        shipments, polls = self._shipments, 0
        serial, now = shipments.next_serial, self._clock.now()
        label = ParcelLabel(
            self._how.name, serial, to, host, now, shipments.oldest, self._secret, state,
            self._how.belongings(host) if state is not None else Belongings(),
        )  # fmt: skip
        writer = ParcelWriter(shipments.path(serial), label)
        for owed, found in self._outbox.take(host):
            for link in map(_decode, owed):
                if link.door is Door.POLLED:
                    polls += 1
                else:
                    shipments.foreign.add(self._key(link))
            writer.links(owed, owed=True)
            writer.links(found, owed=False)
        if state is not None:
            for keys in self._keyring.take(host):
                writer.keys(keys)
        shipments.packed(label, writer.finish())
        return polls

    @property
    def parcels(self) -> dict[int, Path]:
        """Parcels to be sent, by id, as the last checkpoint has them: again and again, until the receipt."""
        return {note.serial: self._shipments.path(note.serial) for note in self._shipments.parcels}

    def released(self, serial: int) -> None:
        """There is a receipt for this parcel of ours: it may be forgotten, with the next checkpoint."""
        self._shipments.forget(serial)

    # -- a host comes

    def adopt(self, path: Path, discover: Callable[[Sequence[Link]], None]) -> tuple[ParcelLabel, int]:
        """Take a parcel in, unless it was taken in before; returns its label, and the polls in it.

        Nothing may be pending in the sieve. `discover` gets the links that were only found.
        """
        parcel = Parcel(path)
        label, host, polls = parcel.label, parcel.label.host, 0
        if label.to != self._how.name:
            raise ForeignParcel(path, f"it is for `{label.to}`, and this is `{self._how.name}`")
        if label.secret != self._secret:
            raise ForeignParcel(path, f"`{label.sender}` has another key secret")
        if self._shipments.knows(label):
            return label, 0
        self._shipments.took(label)
        now = self._clock.now()
        if label.state is not None and self._doors.where(host) is not Where.LEAVING:
            self._doors.move(host, Where.HERE)
            self._parts.sites.count_urls(host, 0)
            state = self._parts.hosts.quiet(_waiting_on(label.state, label.at, now))
            self._parts.hosts.put(host, state, now)
            self._how.unpack(host, label.belongings, label.belongings.robots_txt_until - label.at)
        found: list[Link] = []
        for content in parcel.contents():
            if isinstance(content, ParcelKeys):
                self._learn(host, content)
            elif content.owed:
                polls += self._take_over(host, content, label.at, now)
            else:
                found += map(_decode, content.rows)
        self._come_home(host, found)
        if self._doors.here(host):
            discover(found)
        else:
            for link in found:
                self._outbox.pass_on(host, _encode(link))
        return label, polls

    def has_adopted(self, sender: str, serial: int) -> bool:
        """Whether that parcel is in the last checkpoint: the receipt, which may be asked for any time."""
        return serial in self._shipments.receipts.get(sender, Taken())

    def _learn(self, host: Host, content: ParcelKeys) -> None:
        """All keys of the host: none of these URLs is new."""
        new = self._parts.sieve.learn(content.array())
        self._shipments.foreign.add_all(new)
        self._parts.sites.count_urls(host, new.size)
        self._keyring.add(host, content.array())

    def _take_over(self, host: Host, content: ParcelLinks, at: float, now: float) -> int:
        """URLs that are owed an outcome: now we owe it."""
        polls = 0
        links = [_moved_in(_decode(row), at, now) for row in content.rows]
        keys = [self._key(link) for link in links if link.door is not Door.POLLED]
        new = self._parts.sieve.learn(np.array(keys, np.uint64))
        self._parts.sites.count_urls(host, new.size)
        unknown = set(new.tolist())
        for key in keys:
            if (key or 1) not in unknown:
                self._shipments.foreign.remove(key)
        polls = len(links) - len(keys)
        self._seat(host, links)
        return polls

    def _seat(self, host: Host, links: Sequence[Link]) -> None:
        """Put URLs where they wait from now on: in the host's queue, resting, online, or in the outbox."""
        here, now, queued = self._doors.here(host), self._clock.now(), 0
        for link in links:
            row = _encode(link)
            if not here:
                self.owe(host, row)
            elif link.not_before > now:
                (number,) = self._parts.front.add((row,))
                self._resting.put(link.not_before, number, host)
            elif link.door is Door.POLLED:
                self._distributor.seat(host, self._parts.front.add((row,)))
            else:
                self._parts.queues.append(host, row)
                queued += 1
        if queued:
            self._distributor.hold(host, queued)

    def _come_home(self, host: Host, found: list[Link]) -> None:
        """If the host is here, what waited for a parcel to it need wait no more."""
        if self._doors.here(host):
            self._outbox.came_home(host)
            for owed, told in self._outbox.take(host):
                self._seat(host, [_decode(row) for row in owed])
                found += map(_decode, told)

    def undelivered(self) -> Iterator[tuple[Host, int]]:
        """Hosts elsewhere for which links wait here, and how many: `release` lets them follow."""
        for host in self._outbox.hosts():
            if self._doors.where(host) is Where.ELSEWHERE:
                yield host, self._outbox.count(host)


def _moved_in(link: Link, at: float, now: float) -> Link:
    later = now + link.not_before - at if link.not_before > at else link.not_before
    door = Door.POLLED if link.door is Door.POLLED else Door.ADOPTED
    return msgspec.structs.replace(link, door=door, not_before=later)


def _waiting_on(state: HostState, at: float, now: float) -> HostState:
    """What was left of each wait when the parcel was sealed is waited from now on.

    Two machines' clocks may differ by any amount. So a wait is never shorter for that, and longer by
    the way at most.
    """
    return msgspec.structs.replace(
        state,
        ready_at=now + state.ready_at - at if state.ready_at > at else state.ready_at,
        address_ready_at=(
            now + state.address_ready_at - at if state.address_ready_at > at else state.address_ready_at
        ),
    )
