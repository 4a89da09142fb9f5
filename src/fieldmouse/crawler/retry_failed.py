"""Retry of failed hosts and URLs: `resume --retry-failed`.

A crawl that misread an outage has given up healthy hosts. All hosts that were given up for failing lose
their verdict and their failures, and every URL with such an outcome is fetched again. So are URLs refused
for a private address, if the settings now allow such addresses. These URLs are known to the sieve, so they
enter behind it.

The outcome log is never changed: a row of the kind `forgiven` withdraws the URL's last row, and readers
of the log (`storage/outcome_log_reader.py`) skip both. All of this is part of the first checkpoint of the run: a
kill before it leaves everything unchanged. An agent of a cluster withdraws its own outcomes in the same
way, and reports them to the coordinator after that checkpoint (`agent --retry-failed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fieldmouse.frontier.frontier import Frontier
from fieldmouse.policy.retry import CLEARABLE, HOST_FAILURES
from fieldmouse.storage.checkpoint import CrawlCounters
from fieldmouse.storage.log import Log, read_records
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Host, host_of

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutcomeRow).decode
_decode_late = msgspec.msgpack.Decoder(tuple[str, float]).decode

#: Reasons that may concern one page of a healthy host: these outcomes stand unless the host was given up.
_OF_ONE_PAGE = frozenset({OutcomeReason.TLS.value, OutcomeReason.TIMEOUT.value, OutcomeReason.CONNECTION_CLOSED.value})


_GIVEN_UP = (OutcomeKind.FAILED, OutcomeKind.REFUSED)


class RetryCounts(msgspec.Struct, frozen=True):
    """Numbers of hosts and URLs to be tried again."""

    hosts: int
    urls: int


class RetryFailed:
    """One retry of failures. `tell` gets the result; with `private`, private addresses are allowed."""

    def __init__(self, tell: Callable[[RetryCounts], None], *, private: bool = False):
        self._tell = tell
        self._verdicts = CLEARABLE if private else HOST_FAILURES
        self._cleared_hosts: set[Host] = set()

    def clear_verdicts(self, frontier: Frontier) -> None:
        """Clear the verdicts of hosts: before the frontier begins, which queues hosts by their verdict."""
        self._cleared_hosts.update(frontier.clear_host_verdicts(self._verdicts))

    def requeue(self, frontier: Frontier, outcomes: Log, tally: CrawlCounters, now: float) -> None:
        """Queue the URLs again: after all parts have begun, and before the first checkpoint."""
        rows = [
            row
            for row in self._retryable_rows(outcomes, polled=tally.polled.polls > 0).values()
            if row.reason not in _OF_ONE_PAGE or host_of(row.url) in self._cleared_hosts
        ]
        self._withdraw_outcomes(rows, outcomes, tally, now)
        frontier.requeue_withdrawn_outcomes([_request_of_row(row) for row in rows])
        self._tell(RetryCounts(len(self._cleared_hosts | {host_of(row.url) for row in rows}), len(rows)))

    def requeue_on_cluster(
        self,
        take_back: Callable[[Sequence[tuple[Request, str]]], None],
        outcomes: Log,
        unbooked: Log,
        tally: CrawlCounters,
        now: float,
        *,
        own_from: int,
    ) -> None:
        """Queue an agent's failed URLs on the coordinator again, for any agent.

        Excluded are `unbooked` outcomes, which came too late to count, and those before `own_from` in the
        log, which a copied directory has from its original: other agents retry these. The state of hosts
        is on the coordinator; here a host counts as given up if one of its URLs has such a verdict.
        """
        late = dict(_decode_late(record) for _, record in read_records(unbooked.path, length=unbooked.length))
        given_up = self._retryable_rows(outcomes, polled=tally.polled.polls > 0, start=own_from).values()
        rows = [row for row in given_up if row.at > late.get(row.url, 0.0)]
        hosts = {host_of(row.url) for row in rows if row.reason in self._verdicts}
        rows = [row for row in rows if row.reason in self._verdicts or host_of(row.url) in hosts]
        self._withdraw_outcomes(rows, outcomes, tally, now)
        take_back([(msgspec.structs.replace(_request_of_row(row), forgiven=True), row.kind.value) for row in rows])
        self._tell(RetryCounts(len(hosts), len(rows)))

    def _retryable_rows(self, outcomes: Log, *, polled: bool, start: int = 0) -> dict[str, OutcomeRow]:
        """The last row of each URL with a retryable reason that is not withdrawn yet.

        If anything was `polled`, every row is decoded: a poll may have given a URL another outcome since.
        """
        rows: dict[str, OutcomeRow] = {}
        reasons = self._verdicts | _OF_ONE_PAGE
        marks = [reason.encode() for reason in reasons]
        for _, record in read_records(outcomes.path, start=start, length=outcomes.length):
            # Most rows are pages: searching for the reason is much cheaper than decoding.
            if polled or any(mark in record for mark in marks):
                row = _decode(record)
                if row.kind is OutcomeKind.WITHDRAWN or (row.polled and row.supersedes_earlier):
                    rows.pop(row.url, None)
                elif row.polled:
                    continue
                elif row.kind in _GIVEN_UP and row.reason in reasons and not row.status:
                    rows[row.url] = row
        return rows

    @staticmethod
    def _withdraw_outcomes(rows: Sequence[OutcomeRow], outcomes: Log, tally: CrawlCounters, now: float) -> None:
        for row in rows:
            mark = OutcomeRow(row.url, OutcomeKind.WITHDRAWN, now, reason=row.reason, detail=row.kind)
            outcomes.append(_encode(mark))
            tally.uncount_outcome(row.kind, row.reason)


def _request_of_row(row: OutcomeRow) -> Request:
    return Request(row.url, row.depth, row.via, RequestKind(row.found_as), row.seen_at)
