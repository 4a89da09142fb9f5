"""Progress line of a running crawl, and its summary for people."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from fieldmouse.cli import console
from fieldmouse.cluster.client.identity import resume_command
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.config.settings_file import Settings
from fieldmouse.errors import shell_quoted
from fieldmouse.formatting import format_count
from fieldmouse.policy.retry import HOST_FAILURES
from fieldmouse.types.reason import StoppedBy
from fieldmouse.types.stats import LiveStats, Summary

#: Seconds over which the speed is averaged.
WINDOW = 10.0


class ProgressLine:
    """Progress line: updated once a second on a terminal, printed every `every` seconds elsewhere.

    `every` None prints no lines without a terminal. With `polls` the line counts polls; `budget` is the
    seconds between two polls, None for no limit. With `network` the hosts are those that this agent holds
    now, and the waiting URLs are those of all agents.
    """

    def __init__(
        self, *, every: float | None = None, polls: bool = False, budget: float | None = None, network: bool = False
    ):
        self._polls, self._budget, self._network = polls, budget, network
        self._first: LiveStats | None = None
        self._live = console.LiveLine() if console.messages_on_terminal() else None
        self._every = every
        self._printed_at = 0.0
        self._recent: deque[tuple[float, int]] = deque()

    def show(self, reading: LiveStats) -> None:
        self._first = self._first or reading
        self._recent.append((reading.at, reading.polls if self._polls else reading.pages))
        while len(self._recent) > 2 and self._recent[0][0] < reading.at - WINDOW:
            self._recent.popleft()
        if self._live is not None:
            self._live.show(self.line(reading))
        elif self._every is not None and reading.at - self._printed_at >= self._every:
            self._printed_at = reading.at
            console.message(self.line(reading))

    def line(self, reading: LiveStats) -> str:
        count, dropped = console.format_number, reading.dropped + reading.obsolete
        if self._polls:
            return self._polling_line(reading, self._first or reading)
        hosts = f"{format_count(reading.front, 'host')} held" if self._network else format_count(reading.hosts, "host")
        return (
            f"{format_count(reading.pages, 'page')}  {count(self._speed())}/s  {hosts}"
            f" ({count(reading.ready)} ready)  buffer {reading.buffered}  fetching {reading.robots}"
            f"  waiting {count(reading.waiting)}{' for all' * self._network}  failed {count(reading.failed)}"
            + (f"  dropped {count(dropped)}" if dropped else "")
            + _idle_text(reading)
        )

    def _polling_line(self, reading: LiveStats, first: LiveStats) -> str:
        count, polls = console.format_number, reading.polls - first.polls
        changed, gone = reading.changed - first.changed, reading.gone - first.gone
        useful = f"  {(changed + gone) / polls:.0%} useful" if polls else ""
        return (
            f"{format_count(polls, 'poll')}  {self._poll_rate_text()}{useful}"
            f"  changed {count(changed)}  gone {count(gone)}  new {count(reading.seen - first.seen)}"
            f"  in flight {count(reading.polling)}  fetching {reading.robots}" + _idle_text(reading)
        )

    def _poll_rate_text(self) -> str:
        """Rate of polls, with the budget if there is one."""
        speed = self._speed()
        if self._budget is None:
            return console.format_rate(speed) if speed else "0/s"
        return f"{console.format_rate(speed)} of {budget_text(self._budget)}"

    def _speed(self) -> float:
        (began, before), (ended, after) = self._recent[0], self._recent[-1]
        return (after - before) / (ended - began) if ended > began else 0.0

    def close(self) -> None:
        if self._live is not None:
            self._live.close()


def _idle_text(reading: LiveStats) -> str:
    """What an idle crawl waits for; "" if the next request is due within a second."""
    seconds = reading.next_at - reading.at
    if seconds < 1.0:
        return ""
    wait = console.format_duration(round(seconds))
    if reading.resting:
        return f"  waits {wait} for {format_count(reading.resting, 'host')} that failed"
    return f"  next request in {wait}"


def budget_text(seconds: float | None) -> str:
    """Budget of one poll in `seconds`, as text."""
    return "no rate limit" if seconds is None else console.format_rate(1 / seconds)


def first_line(settings: Settings, directory: str, order: RefreshRunMode | None) -> str:
    """First line of output: the task, the directory and the user agent."""
    agent = settings.crawl.user_agent
    if order is None:
        return f"crawling into `{directory}` as {agent}"
    how = "one round" if order.once else f"policy `{settings.refresh.policy}`"
    return f"refreshing `{directory}` as {agent}: {how}, {budget_text(settings.refresh.budget)}"


def print_summary(
    summary: Summary, settings: Settings, directory: str, order: RefreshRunMode | None = None, repeated: str = ""
) -> None:
    """Print the summary of a crawl and a hint for the next command, which `repeated` options continue."""
    count = console.format_number
    if summary.refreshed is not None:
        console.message(f"{summary.refreshed}")
        if summary.refreshed.useful_ratio is not None:
            console.message(f"{summary.refreshed.useful_ratio:.0%} of the polls found a change")
        for reason, times in sorted(summary.refreshed.reasons.items(), key=lambda item: -item[1])[:6]:
            console.message(f"  {count(times):>7}  {reason}")
        for rest in summary.refreshed.resting[:6]:
            console.message(f"{rest}; its pages come first in the next round")
    speed = f" ({count(summary.pages_per_second)} pages/s)" if order is None else ""
    # Earlier runs may have fetched pages; then only the time is of this run. The speed is rounded.
    first_run = order is None and summary.pages_per_second * summary.seconds >= 0.97 * summary.pages - 1
    # In a cluster most hosts have given pages to other agents, too, so their number is left out.
    hosts = f" from {format_count(summary.giving_hosts, 'host')}" if summary.whole is None else ""
    console.message(
        f"{format_count(summary.pages, 'page')}{hosts},"
        f" {console.format_size(summary.bytes)}{', in' if first_run else '; this run took'}"
        f" {console.format_duration(summary.seconds)}{speed}"
    )
    others = f"{count(summary.moved)} moved, {count(summary.refused)} refused, {count(summary.failed)} failed"
    if summary.whole is None:
        console.message(f"{format_count(summary.seen, 'URL')} seen: {others}, {count(summary.waiting)} waiting")
    else:  # waiting URLs belong to no agent
        console.message(f"{format_count(summary.seen - summary.waiting, 'URL')} settled by this agent: {others}")
    for reason, times in sorted(summary.reasons.items(), key=lambda item: -item[1])[:6]:
        console.message(f"  {count(times):>7}  {reason}")
    if summary.reasons and summary.pages:
        console.message(f"  list them with `fieldmouse export {shell_quoted(directory)} --to - --all`")
    for rule, links in summary.dropped_links.items():
        console.message(f"{format_count(links, 'link')} {'was' if links == 1 else 'were'} dropped by `{rule}`")
    for channel, changes in summary.untold.items():
        verb = "waits" if changes == 1 else "wait"
        console.message(f"{format_count(changes, 'change')} {verb} to be sent by {channel} in the next run")
    if summary.lost:
        console.message(
            f"error: {format_count(summary.lost, 'URL')} cannot be accounted for, which is a bug in fieldmouse"
        )
        console.hint(f"run `fieldmouse doctor {shell_quoted(directory)}` for details, and please report it")
    if summary.whole is not None:
        console.message(
            f"all agents together: {format_count(summary.whole.pages, 'page')},"
            f" {format_count(summary.whole.seen, 'URL')} seen, {count(summary.whole.waiting)} waiting"
        )
    console.message(_ending_text(summary, settings))
    if order is not None and not order.once and summary.refreshed is not None and not summary.refreshed.polls:
        console.hint("no page was due; `fieldmouse explain DIRECTORY URL` says when one is polled next")
    if summary.exit in (3, 130) and summary.whole is not None:
        again = resume_command(Path(directory))
        limit = {StoppedBy.PAGE_LIMIT: "--pages N", StoppedBy.TIME_LIMIT: "--time T"}.get(summary.stopped_by)
        if limit is not None:  # the limit counts from the start of the whole crawl
            console.hint(f"continue with a higher limit, or 0 for none, on each agent: `{again} {limit}`")
        else:
            console.hint(f"continue with `{again}`")
    elif summary.exit in (3, 130):
        again = f"{'resume' if order is None else 'refresh'} {shell_quoted(directory)}{repeated}"
        this_round = " the round" if order is not None and order.once else ""
        console.hint(f"continue{this_round} with `fieldmouse {again}`")
    elif order is not None and order.hold_waiting and summary.waiting:
        console.hint(f"fetch them, too, with `fieldmouse refresh {shell_quoted(directory)}{repeated} --continue`")
    elif summary.refreshed is not None and (summary.refreshed.changed or summary.refreshed.gone):
        console.hint(f"list the changes with `fieldmouse changes {shell_quoted(directory)}`")
    elif order is not None and summary.exit != 1:
        console.hint(f"see how fresh the copies are with `fieldmouse freshness {shell_quoted(directory)}`")
    elif summary.pages and summary.whole is not None:
        console.hint(
            f"search all agents' pages with `fieldmouse search {shell_quoted(directory)} --with OTHER-DIR WORDS`"
        )
    elif summary.pages and not summary.exit:
        console.hint(f"search it with `fieldmouse search {shell_quoted(directory)} WORDS`")
    if summary.whole is not None and not summary.exit and HOST_FAILURES & summary.reasons.keys():
        again = resume_command(Path(directory))
        console.hint(f"once the failed hosts are reachable again, run `{again} --retry-failed`")


def _ending_text(summary: Summary, settings: Settings) -> str:
    waiting = f"{format_count(summary.waiting, 'URL')} {'is' if summary.waiting == 1 else 'are'} waiting"
    match summary.stopped_by:
        case StoppedBy.NOTHING:
            if not summary.waiting:
                return "done: nothing is waiting"
            return f"done for now; {waiting}"
        case StoppedBy.PAGE_LIMIT:
            return f"stopped by the limit of {format_count(settings.crawl.pages, 'page')}; {waiting}"
        case StoppedBy.TIME_LIMIT:
            return f"stopped by the limit of {console.format_duration(settings.crawl.time)}; {waiting}"
        case StoppedBy.DISK_FULL:
            return f"stopped: less than {console.format_size(settings.storage.min_free)} free on the disk; {waiting}"
        case StoppedBy.SIGNAL:
            return f"stopped by you; {waiting}"
        case StoppedBy.DRAINED:
            return f"left on request (`fieldmouse cluster drain`); {waiting} for other agents"
