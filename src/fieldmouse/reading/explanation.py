"""Explanation of one URL: its outcomes, why it waits, and the state of its host, in sentences and records."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from fieldmouse import url as urls
from fieldmouse.crawldir import CrawlDir, outcomes
from fieldmouse.figures import counted, duration, size, when
from fieldmouse.frontier import lookout
from fieldmouse.frontier.lookout import Place, Whereabouts
from fieldmouse.reading import absence
from fieldmouse.reading.bookings import unbooked
from fieldmouse.reading.history import (
    MOST,
    DueDate,
    due_date,
    is_dull,
    told_of_due,
    told_of_moves,
    told_of_polls,
)
from fieldmouse.reading.moment import Checkpoint, look, sealed_frontier, sealed_outcomes
from fieldmouse.records import HostState, Link, OutcomeKind, OutcomeRow
from fieldmouse.url import Url

ELSEWHERE = "this agent has no outcome of it: the coordinator knows whether it waits or another agent has it"


class Explanation(msgspec.Struct, frozen=True):
    """Everything a crawl has recorded about one URL. `print` it, or use its fields."""

    url: Url
    place: str  # where it is now, as a phrase
    says: list[str]  # sentences
    outcomes: list[OutcomeRow] = []  # all of them, oldest first
    waiting: Link | None = None
    host: HostState | None = None
    due: DueDate | None = None  # next poll; None in a crawl that was never refreshed
    moved_here: list[Url] = []  # pages that moved to it permanently

    def __str__(self) -> str:
        return "\n  ".join([self.url, *self.says])


def explain(home: CrawlDir, url: Url, now: float | None = None, *, absent: bool = True) -> Explanation:
    """Explain a URL as of the newest checkpoint; works while the crawl runs. `now` is epoch seconds.

    For a URL that was never taken the archive is searched for the reason, which takes time; `absent=False`
    skips that.
    """
    moment = time.time() if now is None else now
    nothing = Explanation(url, "unknown", ["the crawl has no checkpoint yet, so nothing is known"])
    return look(home, lambda last: _explain(home, url, last, moment, absent), before=nothing)


def _explain(home: CrawlDir, url: Url, last: Checkpoint, now: float, absent: bool) -> Explanation:
    found = lookout.look(home / "frontier", sealed_frontier(last), home.identity.key_seed, url)
    rows = outcomes.rows_of(home, url, length=sealed_outcomes(last))
    place = found.place.value
    says = [*_origin(rows[0] if rows else found.link), *_fates(rows, unbooked(home, url))]
    never = ELSEWHERE if home.is_agents else "it was never seen as a link to be taken"
    if found.place is Place.UNKNOWN and not absent:
        says += [] if rows else [never]
    elif found.place is Place.UNKNOWN:
        if absence.is_exclusion(url):
            place = absence.EXCLUSION
            says += absence.of_exclusion(home, url, last)
        else:
            says += [never, *absence.reasons(home, url, found, last, now)]
    elif found.link is not None:
        says += _wait(found, found.link, now)
    elif not rows and sealed_frontier(last).shipments is None:
        says.append("it is done, and left no outcome, which is a bug in fieldmouse: please report it")
    moves = outcomes.moves_to(home, url, length=sealed_outcomes(last))
    says += told_of_moves(moves)
    due = due_date(home, url, last)
    if due is not None:
        says.append(told_of_due(due, now))
    if found.host is not None or not home.is_agents:  # the state of an agent's hosts is on the coordinator
        says += _host(url, found.host, now)
    return Explanation(url, place, says, rows, found.link, found.host, due, [row.url for row in moves])


def _origin(first: OutcomeRow | Link | None) -> Iterator[str]:
    if first is None:
        return
    seen = f"seen {when(first.seen_at)}" if first.seen_at else "seen"
    came = f"on {first.via}, {counted(first.depth, 'link')} away from a seed" if first.via else "as a seed"
    yield f"{seen} {came}"


def _fates(rows: list[OutcomeRow], unbooked: float = 0.0) -> Iterator[str]:
    """Outcomes in order; of polls the newest ones that findings something, and a count of the others."""

    def sentences(row: OutcomeRow) -> Iterator[str]:
        yield from _fate(row)
        if row.at <= unbooked:
            yield "another agent's outcome was booked before this one, which does not count for the crawl"

    initial = [row for row in rows if not row.polled]
    findings = [row for row in rows if row.polled and not is_dull(row)]
    for row in initial:
        yield from sentences(row)
    yield from told_of_polls(rows)
    if len(findings) > MOST:
        yield f"the newest {MOST} of {len(findings)} polls that found something:"
    for row in findings[-MOST:]:
        yield from sentences(row)


def _fate(row: OutcomeRow) -> Iterator[str]:
    at = when(row.at)
    status = f" with status {row.status}" if row.status else ""
    detail = f" ({row.detail})" if row.detail else ""
    match row.kind:
        case OutcomeKind.PAGE:
            title = f' "{row.title}"' if row.title else ""
            yield f"fetched {at}{status}:{title} {row.mime or 'of no type'}, {size(row.size)}"
            if row.detail:
                yield f"read with this trouble: {row.detail}"
            if row.warc:
                yield f"kept in archive/{row.warc} at byte {row.offset}"
            if row.duplicate_of:
                yield f"the same bytes as {row.duplicate_of}"
            elif row.near_duplicate_of:
                yield f"almost the same words as {row.near_duplicate_of}"
            if not row.indexed:
                yield "not in the full-text index, because the page asked for that or holds no text"
        case OutcomeKind.UNCHANGED:
            yield f"asked again {at}: unchanged"
        case OutcomeKind.MOVED:
            yield f"moved{status} at {at}, to {row.target}"
        case OutcomeKind.FORGIVEN:
            yield f"forgiven {at}, and to be asked for again: {row.reason} was taken back"
        case OutcomeKind.REFUSED:
            yield f"not asked for, {at}: {row.reason}{detail}"
        case _:
            tries = f", after {row.tries + 1} tries" if row.tries else ""
            yield f"failed {at}{status}{tries}: {row.reason}{detail}"


def _wait(found: Whereabouts, link: Link, now: float) -> Iterator[str]:
    """Why the URL waits. The rest time of its host is stated once, with the host."""
    where, ahead = found.place.value, found.ahead
    if found.place is Place.ONLINE and found.host is not None and _rests_until(found.host) > now:
        where = "until its host has rested"
    yield f"waiting: {where}" + (f", behind {counted(ahead, 'other')}" if ahead else "")
    if link.tries:
        yield f"failed {counted(link.tries, 'time')} so far"
    rest = 0.0 if found.host is None or found.host.verdict else _rests_until(found.host)
    if link.not_before > max(now, rest):
        yield f"will be tried again {_later(link.not_before, now)}"


def _host(url: Url, host: HostState | None, now: float) -> Iterator[str]:
    name = urls.host_of(url)
    if host is None:
        yield f"its host {name} was never met"
        return
    where = f" at {host.address}" if host.address else ", whose address is not known yet,"
    yield f"its host {name}{where} has given {counted(host.pages, 'page')}"
    if host.crawl_delay:
        yield f"its robots.txt asks for {duration(host.crawl_delay)} between requests"
    if host.put_off:
        times = counted(host.put_off, "time")
        yield f"failures of the local network or DNS prevented requests to it {times} in a row"
    failed = f"the host failed {counted(host.failures, 'time')} in a row" if host.failures else ""
    if host.verdict:
        # It is no longer asked, so it has no rest time.
        why = f" ({host.detail})" if host.detail else ""
        yield from [failed] if failed else []
        yield f"the host's other URLs are answered without asking: {host.verdict}{why}"
        return
    if failed:
        yield f"{failed} and is kept quiet for longer each time"
    until = _rests_until(host)
    if host.asked and host.ready_at > now:
        yield f"the server asked to wait until {when(host.ready_at + host.asked_beyond)} ({host.asked})" + (
            ", which is longer than `politeness.retry_after_cap`" if host.asked_beyond > 0 else ""
        )
    if until > now:
        who = "the host" if host.ready_at >= host.address_ready_at else "its address"
        yield f"{who} rests and may be asked again {_later(until, now)}"


def _rests_until(host: HostState) -> float:
    """The later of both: hosts share an address, and the address must have rested too."""
    return max(host.ready_at, host.address_ready_at)


def _later(at: float, now: float) -> str:
    return f"in {duration(at - now)}, at {when(at)}"
