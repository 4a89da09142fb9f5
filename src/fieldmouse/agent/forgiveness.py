"""Taking back verdicts that were wrong: `resume --retry-failed`.

A crawl that met an outage it did not understand has given up hosts that are well. All hosts
that were given up for failing lose their verdict and their failures, and every URL that was answered for
that reason is to be visited again. So is what was refused for a private address, if the settings allow
such addresses by now. Such a URL is known to the sieve, so it enters behind it.

The outcome log is never changed: a row of the kind `forgiven` takes the URL's last one back, and
whoever reads the log (`outcomes.py`) passes over both. All of this is part of one
checkpoint, the first of the run: a kill before it leaves everything as it was. An agent of a network takes
its own outcomes back in the same way (`agent --retry-failed`), and tells the coordinator of it behind that
checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fieldmouse.crawldir import CrawlTally, Log, records
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.policy.retry import FORGIVABLE, OF_HOSTS
from fieldmouse.records import Kind, Link, OutcomeKind, OutcomeRow, Reason
from fieldmouse.url import Host, host_of

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutcomeRow).decode
_decode_late = msgspec.msgpack.Decoder(tuple[str, float]).decode

_OF_ONE_PAGE = frozenset({Reason.TLS.value, Reason.TIMEOUT.value, Reason.CLOSED.value})
"""These may be of one page of a healthy host: then they stand."""


_GIVEN_UP = (OutcomeKind.FAILED, OutcomeKind.REFUSED)


class Forgiven(msgspec.Struct, frozen=True):
    """What was taken back."""

    hosts: int
    urls: int


class Mercy:
    """One act of forgiving. `tell` is told what was taken back; `private`: private addresses are allowed."""

    def __init__(self, tell: Callable[[Forgiven], None], *, private: bool = False):
        self._tell = tell
        self._verdicts = FORGIVABLE if private else OF_HOSTS
        self._pardoned: set[Host] = set()

    def pardon(self, frontier: Frontier) -> None:
        """Take the verdicts back: before the frontier begins, which seats hosts by their verdict."""
        self._pardoned.update(frontier.pardon(self._verdicts))

    def readmit(self, frontier: Frontier, outcomes: Log, tally: CrawlTally, now: float) -> None:
        """Let the URLs enter again: after all has begun, and before the first checkpoint."""
        rows = [
            row
            for row in self._given_up(outcomes, polled=tally.polled.polls > 0).values()
            if row.reason not in _OF_ONE_PAGE or host_of(row.url) in self._pardoned
        ]
        self._take_back(rows, outcomes, tally, now)
        frontier.readmit([_link(row) for row in rows])
        self._tell(Forgiven(len(self._pardoned | {host_of(row.url) for row in rows}), len(rows)))

    def send_out(
        self, take_back: Callable[[Sequence[tuple[Link, str]]], None], outcomes: Log, unbooked: Log,
        tally: CrawlTally, now: float, *, own_from: int,
    ) -> None:  # fmt: skip
        """The same for an agent of a network: its URLs wait on the board again, for whichever agent.

        What is `unbooked`, because it came too late to count, is others' to forgive, and so is what stands
        in the log before `own_from`: a copy has that of its original. How hosts stand is on
        the board: here those of which a URL was answered for such a verdict are taken to have it.
        """
        late = dict(_decode_late(record) for _, record in records(unbooked.path, length=unbooked.length))
        given_up = self._given_up(outcomes, polled=tally.polled.polls > 0, start=own_from).values()
        rows = [row for row in given_up if row.at > late.get(row.url, 0.0)]
        hosts = {host_of(row.url) for row in rows if row.reason in self._verdicts}
        rows = [row for row in rows if row.reason in self._verdicts or host_of(row.url) in hosts]
        self._take_back(rows, outcomes, tally, now)
        take_back([(msgspec.structs.replace(_link(row), forgiven=True), row.kind.value) for row in rows])
        self._tell(Forgiven(len(hosts), len(rows)))

    def _given_up(self, outcomes: Log, *, polled: bool, start: int = 0) -> dict[str, OutcomeRow]:
        """The last row of each URL that was answered for the network's sake, and is not taken back yet.

        If anything was `polled`, every row is looked at: a poll may have given a URL another outcome since.
        """
        found: dict[str, OutcomeRow] = {}
        reasons = self._verdicts | _OF_ONE_PAGE
        marks = [reason.encode() for reason in reasons]
        for _, record in records(outcomes.path, start=start, length=outcomes.length):
            # Most rows are pages: looking for the words is much cheaper than decoding.
            if polled or any(mark in record for mark in marks):
                row = _decode(record)
                if row.kind is OutcomeKind.FORGIVEN or (row.polled and row.stands):
                    found.pop(row.url, None)
                elif row.polled:
                    continue
                elif row.kind in _GIVEN_UP and row.reason in reasons and not row.status:
                    found[row.url] = row
        return found

    @staticmethod
    def _take_back(rows: Sequence[OutcomeRow], outcomes: Log, tally: CrawlTally, now: float) -> None:
        for row in rows:
            said = OutcomeRow(row.url, OutcomeKind.FORGIVEN, now, reason=row.reason, detail=row.kind)
            outcomes.append(_encode(said))
            tally.take_back(row.kind, row.reason)


def _link(row: OutcomeRow) -> Link:
    return Link(row.url, row.depth, row.via, Kind(row.found_as), row.seen_at)
