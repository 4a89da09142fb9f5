"""Explanation of one URL, in one crawl or several: its outcomes, polls, why it waits, and the state of its
host.

Every explanation consists of sentences for people and of the records they are made from.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from operator import itemgetter

import msgspec
import numpy as np

from fieldmouse import url as urls
from fieldmouse.formatting import format_count, format_duration, format_size, format_time
from fieldmouse.frontier import url_lookup
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.frontier.url_lookup import UrlPlace, UrlStatus
from fieldmouse.reader import explain_missing
from fieldmouse.reader.polling_and_packing_plans import OpenPageTable, PollingPlan
from fieldmouse.reader.snapshot import read_at_newest_checkpoint
from fieldmouse.reader.versions import visibly_different
from fieldmouse.refresh.apply_outcomes import PageFlag, is_unplanned
from fieldmouse.refresh.page_table import PAGE_TABLE, read_page_table
from fieldmouse.refresh.scheduler import RETRY_INTERVAL
from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.checkpoint import Checkpoint, sealed_outcome_bytes
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import read_records
from fieldmouse.types.host_state import HostState
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Request
from fieldmouse.url import Url

REJECTED_LOG = "unbooked.log"


class CoordinatorRejectedOutcome(msgspec.Struct, frozen=True, array_like=True):
    """Row of `unbooked.log`: outcomes of this URL up to this time (epoch seconds) did not count."""

    url: str
    at: float


_decode_rejected = msgspec.msgpack.Decoder(CoordinatorRejectedOutcome).decode


def uncounted_until(home: CrawlDir, url: str) -> float:
    """Time (epoch seconds) up to which outcomes of a URL did not count; 0 if all of them count."""
    path, name = home / REJECTED_LOG, url.encode()
    if not path.exists():
        return 0.0
    rows = (_decode_rejected(record) for _, record in read_records(path) if name in record)
    return max((row.at for row in rows if row.url == url), default=0.0)


#: Polls described one by one; older ones are only counted.
POLLS_DESCRIBED = 5

_SEEN = (ContentChange.CHANGED, ContentChange.GONE, ContentChange.MOVED)


class NextPoll(msgspec.Struct, frozen=True):
    """Next poll of a page in the present plan. Times are epoch seconds."""

    at: float | None  # None: not in the plan
    every: float | None  # seconds between two polls
    asked: bool = False  # a poll is in flight


def is_poll_without_news(row: OutcomeRow) -> bool:
    """Whether the row is a poll that found nothing new; these are only counted."""
    return bool(row.polled) and (
        row.kind is OutcomeKind.UNCHANGED or row.news in (ContentChange.SAME, ContentChange.NOISE)
    )


def describe_poll_history(rows: Sequence[OutcomeRow]) -> Iterator[str]:
    """How often the page was polled, and how many changes were found."""
    polls = [row for row in rows if row.polled and row.kind is not OutcomeKind.REFUSED]
    if not polls:
        return
    withdrawn = sum(row.withdrawn_change_count for row in polls)
    changes = max(0, sum(row.news in _SEEN for row in polls) - withdrawn)
    noise = sum(row.news is ContentChange.NOISE for row in polls) + withdrawn
    first, last = format_time(polls[0].at), format_time(polls[-1].at)
    span = first if len(polls) == 1 else f"from {first} to {last}"
    yield f"polled {format_count(len(polls), 'time')}, {span}: {format_count(changes, 'change')} found" + (
        f", and {format_count(noise, 'time')} a difference that is none to a reader" if noise else ""
    )
    versions = len(visibly_different(rows))
    if versions > 1:
        yield f"{format_count(versions, 'version')} of it are in the archive"


def describe_pages_moved_here(moves: Sequence[OutcomeRow]) -> Iterator[str]:
    """Pages that moved to this one; their versions stay under their old URL."""
    for row in moves[-POLLS_DESCRIBED:]:
        yield f"{row.url} moved here, as was seen {format_time(row.at)}; its versions are kept under that URL"
    if len(moves) > POLLS_DESCRIBED:
        yield f"so did {format_count(len(moves) - POLLS_DESCRIBED, 'other page')} before"


def next_poll(home: CrawlDir, url: str, last: Checkpoint) -> NextPoll | None:
    """Next poll of the page; None if the crawl was never refreshed or the page is not in the page table."""
    if PAGE_TABLE not in last.parts:
        return None
    table = read_page_table(home, last)
    try:
        number = table.find_row(url)
        if number is None:
            return None
        flags, tried = int(table.column("flags")[number]), float(table.column("tried")[number])
        asked = bool(flags & PageFlag.IN_FLIGHT)
        planner = PollingPlan([OpenPageTable.with_host_groups(home, last, table)])
        (rows,) = planner.rows
        place = np.searchsorted(rows, number)
        is_planned = place < len(rows) and rows[place] == number
        rate = float(planner.present_poll_rates()[place]) if is_planned else 0.0
        odd = bool(is_unplanned(np.array([flags], np.uint16))[0])
        every = RETRY_INTERVAL if odd else 1 / rate if rate else None
        return NextPoll(tried + every if every else None, every, asked)
    finally:
        table.close()


def describe_next_poll(due: NextPoll, now: float) -> str:
    if due.asked:
        return "a poll of it is under way"
    if due.at is None or due.every is None:
        return "not to be polled again by the present plan: its polls would bring less than those of others"
    due_at = min(due.at, now + due.every)  # a last try in the future comes from a clock that was ahead
    soon = f"next {_format_future_time(due_at, now)}" if due_at > now else f"overdue by {format_duration(now - due_at)}"
    return f"a running refresh would poll it every {format_duration(round(due.every, 3))}, {soon}"


NO_OUTCOME_HERE = "this agent has no outcome of it: the coordinator knows whether it waits or another agent has it"


class Explanation(msgspec.Struct, frozen=True):
    """Everything a crawl has recorded about one URL. `print` it, or use its fields."""

    url: Url
    place: str  # where it is now, as a phrase
    says: list[str]  # sentences
    outcomes: list[OutcomeRow] = []  # all of them, oldest first
    waiting: Request | None = None
    host: HostState | None = None
    due: NextPoll | None = None  # next poll; None in a crawl that was never refreshed
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
    return read_at_newest_checkpoint(
        home, lambda last: _explain_at_checkpoint(home, url, last, moment, absent), before=nothing
    )


def _explain_at_checkpoint(home: CrawlDir, url: Url, last: Checkpoint, now: float, absent: bool) -> Explanation:
    found = url_lookup.locate_url(home / "frontier", frontier_state_of(last), home.identity.key_seed, url)
    rows = outcome_log_reader.rows_of(home, url, length=sealed_outcome_bytes(last))
    place = found.place.value
    says = [
        *_describe_discovery(rows[0] if rows else found.link),
        *_describe_outcomes(rows, uncounted_until(home, url)),
    ]
    never = NO_OUTCOME_HERE if home.is_cluster_agent else "no link to it was accepted"
    if found.place is UrlPlace.UNKNOWN and not absent:
        says += [] if rows else [never]
    elif found.place is UrlPlace.UNKNOWN:
        if urls.path_of(url) == "/robots.txt":
            place = "robots.txt"
            says += explain_missing.explain_robots_txt(home, url, last)
        else:
            says += [never, *explain_missing.explain_url_not_taken(home, url, found, last, now)]
    elif found.link is not None:
        says += _describe_waiting(found, found.link, now)
    elif not rows and frontier_state_of(last).shipments is None:
        says.append("it is done, and left no outcome, which is a bug in fieldmouse: please report it")
    moves = outcome_log_reader.pages_moved_to(home, url, length=sealed_outcome_bytes(last))
    says += describe_pages_moved_here(moves)
    due = next_poll(home, url, last)
    if due is not None:
        says.append(describe_next_poll(due, now))
    if found.host is not None or not home.is_cluster_agent:  # the state of an agent's hosts is on the coordinator
        says += _describe_host(url, found.host, now)
    return Explanation(url, place, says, rows, found.link, found.host, due, [row.url for row in moves])


def _describe_discovery(first: OutcomeRow | Request | None) -> Iterator[str]:
    if first is None:
        return
    seen = f"seen {format_time(first.seen_at)}" if first.seen_at else "seen"
    came = f"on {first.via}, {format_count(first.depth, 'link')} away from a seed" if first.via else "as a seed"
    yield f"{seen} {came}"


def _describe_outcomes(rows: list[OutcomeRow], uncounted_until: float = 0.0) -> Iterator[str]:
    """Outcomes in order; of polls the newest ones that findings something, and a count of the others."""

    def sentences(row: OutcomeRow) -> Iterator[str]:
        yield from _describe_outcome(row)
        if row.at <= uncounted_until:
            yield "another agent's outcome was booked before this one, which does not count for the crawl"

    initial = [row for row in rows if not row.polled]
    findings = [row for row in rows if row.polled and not is_poll_without_news(row)]
    for row in initial:
        yield from sentences(row)
    yield from describe_poll_history(rows)
    if len(findings) > POLLS_DESCRIBED:
        yield f"the newest {POLLS_DESCRIBED} of {len(findings)} polls that found something:"
    for row in findings[-POLLS_DESCRIBED:]:
        yield from sentences(row)
    if findings and findings[-1].kind in (OutcomeKind.FAILED, OutcomeKind.REFUSED):
        later = next(filter(is_poll_without_news, rows[rows.index(findings[-1]) + 1 :]), None)
        if later is not None:
            is_found_again = findings[-1].supersedes_earlier and later.kind is OutcomeKind.PAGE and later.indexed
            yield f"unchanged at {format_time(later.at)}{', and in search again' * is_found_again}"


def _describe_outcome(row: OutcomeRow) -> Iterator[str]:
    at = format_time(row.at)
    status = f" with status {row.status}" if row.status else ""
    detail = f" ({row.detail})" if row.detail else ""
    match row.kind:
        case OutcomeKind.PAGE:
            title = f' "{row.title}"' if row.title else ""
            yield f"fetched {at}{status}:{title} {row.mime or 'of no type'}, {format_size(row.size)}"
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
        case OutcomeKind.WITHDRAWN:
            yield f"withdrawn {at}, and to be requested again: {row.reason}"
        case OutcomeKind.REFUSED:
            yield f"not asked for, {at}: {row.reason}{detail}"
        case _ if row.is_gone:
            yield f"gone {at}{status}"
        case _:
            tries = f", after {row.tries + 1} tries" if row.tries else ""
            yield f"failed {at}{status}{tries}: {row.reason}{detail}"


def _describe_waiting(found: UrlStatus, link: Request, now: float) -> Iterator[str]:
    """Why the URL waits. The rest time of its host is stated once, with the host."""
    where, ahead = found.place.value, found.ahead
    if found.place is UrlPlace.ONLINE and found.host is not None and _host_ready_at(found.host) > now:
        where = "until its host has rested"
    yield f"waiting: {where}" + (f", behind {format_count(ahead, 'other')}" if ahead else "")
    if link.tries:
        yield f"failed {format_count(link.tries, 'time')} so far"
    rest = 0.0 if found.host is None or found.host.verdict else _host_ready_at(found.host)
    if link.not_before > max(now, rest):
        yield f"will be tried again {_format_future_time(link.not_before, now)}"


def _describe_host(url: Url, host: HostState | None, now: float) -> Iterator[str]:
    name = urls.host_of(url)
    if host is None:
        yield f"its host {name} was never met"
        return
    where = f" at {host.address}" if host.address else ", whose address is not known yet,"
    yield f"its host {name}{where} has given {format_count(host.pages, 'page')}"
    if host.crawl_delay:
        yield f"its robots.txt asks for {format_duration(host.crawl_delay)} between requests"
    if host.put_off:
        times = format_count(host.put_off, "time")
        yield f"failures of the local network or DNS prevented requests to it {times} in a row"
    failed = f"the host failed {format_count(host.failures, 'time')} in a row" if host.failures else ""
    if host.verdict:
        # It is no longer asked, so it has no rest time.
        why = f" ({host.detail})" if host.detail else ""
        yield from [failed] if failed else []
        yield (
            f"the host was given up: its URLs are not requested ({host.verdict}{why});"
            " `--retry-failed` and each refresh try it again"
        )
        return
    if failed:
        yield f"{failed} and is kept quiet for longer each time"
    until = _host_ready_at(host)
    if host.asked and host.ready_at > now:
        yield (
            f"the server asked to wait until {format_time(host.ready_at + host.asked_beyond)} ({host.asked})"
            + (", which is longer than `politeness.retry_after_cap`" if host.asked_beyond > 0 else "")
        )
    if until > now:
        who = "the host" if host.ready_at >= host.address_ready_at else "its address"
        yield f"{who} rests and may be asked again {_format_future_time(until, now)}"


def _host_ready_at(host: HostState) -> float:
    """The later of both: hosts share an address, and the address must have rested too."""
    return max(host.ready_at, host.address_ready_at)


def _format_future_time(at: float, now: float) -> str:
    return f"in {format_duration(at - now)}, at {format_time(at)}"


class CombinedExplanation(msgspec.Struct, frozen=True):
    """Everything several crawls have recorded about one URL. `print` it, or use its fields."""

    url: Url
    place: str  # in the crawl with the newest outcome, else the first that has seen it; a phrase
    directory: str | None  # crawl with the newest outcome; None if no crawl has one
    says: list[str]  # sentences about all crawls together
    crawls: dict[str, Explanation]  # by directory, in the order given

    @property
    def outcomes(self) -> list[tuple[str, OutcomeRow]]:
        """All outcomes with their directories, oldest first."""
        rows = [(directory, row) for directory, crawl in self.crawls.items() for row in crawl.outcomes]
        return sorted(rows, key=lambda placed: placed[1].at)

    @property
    def lines(self) -> list[str]:
        """The sentences of each crawl, then those about all of them, as text lines."""
        lines: list[str] = [self.url]
        # Usually one agent of many has fetched a page: list the agents without an outcome in one line.
        silent = [directory for directory, crawl in self.crawls.items() if crawl.says == [NO_OUTCOME_HERE]]
        for directory, crawl in self.crawls.items():
            if directory not in silent:
                lines += [f"  in `{directory}`:", *(f"    {sentence}" for sentence in crawl.says)]
        if silent:
            lines.append(f"  {_join_directories(silent)} {'has' if len(silent) == 1 else 'have'} no outcome of it")
        return [*lines, *(f"  {sentence}" for sentence in self.says)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain_in_crawls(homes: Sequence[CrawlDir], url: Url, now: float | None = None) -> CombinedExplanation:
    """Explain a URL as of the newest checkpoint of each crawl.

    The archives are searched for a reason only if no crawl has seen the URL.
    """
    explained = [explain(home, url, now, absent=False) for home in homes]
    if not any(map(_has_seen_url, explained)):
        explained = [explain(home, url, now) for home in homes]
    crawls = {str(home.path): crawl for home, crawl in zip(homes, explained, strict=True)}
    newest = [(crawl.outcomes[-1].at, name) for name, crawl in crawls.items() if crawl.outcomes]
    last = max(newest, key=itemgetter(0), default=(0.0, None))[1]
    seen = [crawls[last]] if last is not None else [*filter(_has_seen_url, explained)] or explained
    return CombinedExplanation(url, seen[0].place, last, list(_describe_shown_copy(crawls)), crawls)


def _join_directories(directories: Sequence[str]) -> str:
    *others, last = [f"`{directory}`" for directory in directories]
    return f"{', '.join(others)} and {last}" if others else last


def _has_seen_url(crawl: Explanation) -> bool:
    return bool(crawl.outcomes) or crawl.waiting is not None


def _describe_shown_copy(crawls: dict[str, Explanation]) -> Iterator[str]:
    """Which copy is shown, if more than one crawl has an outcome of the URL."""
    stated = [
        (name, row)
        for name, crawl in crawls.items()
        for row in [row for row in crawl.outcomes if outcome_log_reader.decides_page(row)][-1:]
    ]
    if len(stated) < 2:
        return
    name, row = max(stated, key=lambda placed: placed[1].at)
    shown = "its copy is shown" if row.kind is OutcomeKind.PAGE else "it is no longer a page"
    yield f"of {len(stated)} crawls that asked for it `{name}` was the last, {format_time(row.at)}: {shown}"
