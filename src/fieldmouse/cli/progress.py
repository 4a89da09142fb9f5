"""How a crawl is shown while it runs, and what is said of it when it ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fieldmouse.balancer.identity import command_of
from fieldmouse.cli import voice
from fieldmouse.errors import typed
from fieldmouse.figures import counted
from fieldmouse.outcome import StoppedBy
from fieldmouse.policy.retry import OF_HOSTS
from fieldmouse.records import Reading, Summary
from fieldmouse.settings import Settings
from fieldmouse.settings.order import Order

WINDOW = 10.0
"""Seconds over which the speed is averaged: long enough to be read, short enough to be current."""


class Progress:
    """The line of vital signs, once a second on a terminal, every few seconds elsewhere if at all."""

    def __init__(
        self, *, every: float | None = None, polls: bool = False, budget: float | None = None,
        network: bool = False,
    ):  # fmt: skip
        """`every`: seconds between lines when there is no terminal; None for silence.

        With `polls` it is about these; their `budget` is seconds between two. In a `network` hosts come to an
        agent and go, and what waits waits for all of them.
        """
        self._polls, self._budget, self._network = polls, budget, network
        self._first: Reading | None = None
        self._live = voice.LiveLine() if voice.on_terminal() else None
        self._every = every
        self._told_at = 0.0
        self._recent: deque[tuple[float, int]] = deque()

    def show(self, reading: Reading) -> None:
        self._first = self._first or reading
        self._recent.append((reading.at, reading.polls if self._polls else reading.pages))
        while len(self._recent) > 2 and self._recent[0][0] < reading.at - WINDOW:
            self._recent.popleft()
        if self._live is not None:
            self._live.show(self.line(reading))
        elif self._every is not None and reading.at - self._told_at >= self._every:
            self._told_at = reading.at
            voice.say(self.line(reading))

    def line(self, reading: Reading) -> str:
        count, dropped = voice.number, reading.dropped + reading.obsolete
        if self._polls:
            return self._line_of_polls(reading, self._first or reading)
        hosts = f"{counted(reading.front, 'host')} held" if self._network else counted(reading.hosts, "host")
        return (
            f"{counted(reading.pages, 'page')}  {count(self._speed())}/s  {hosts}"
            f" ({count(reading.ready)} ready)  buffer {reading.buffered}  robots {reading.robots}"
            f"  waiting {count(reading.waiting)}{' for all' * self._network}  failed {count(reading.failed)}"
            + (f"  dropped {count(dropped)}" if dropped else "")
            + _rest(reading)
        )

    def _line_of_polls(self, reading: Reading, first: Reading) -> str:
        count, polls = voice.number, reading.polls - first.polls
        changed, gone = reading.changed - first.changed, reading.gone - first.gone
        useful = f"  {(changed + gone) / polls:.0%} useful" if polls else ""
        return (
            f"{counted(polls, 'poll')}  {self._pace()}{useful}"
            f"  changed {count(changed)}  gone {count(gone)}  new {count(reading.seen - first.seen)}"
            f"  on their way {count(reading.polling)}  robots {reading.robots}" + _rest(reading)
        )

    def _pace(self) -> str:
        """Polls done, beside the budget if there is one."""
        speed = self._speed()
        if self._budget is None:
            return voice.rate(speed) if speed else "0/s"
        return f"{voice.rate(speed)} of {budget(self._budget)}"

    def _speed(self) -> float:
        (began, before), (ended, after) = self._recent[0], self._recent[-1]
        return (after - before) / (ended - began) if ended > began else 0.0

    def close(self) -> None:
        if self._live is not None:
            self._live.close()


def _rest(reading: Reading) -> str:
    """What a crawl waits for that makes no request just now; "" if it is only for moments."""
    seconds = reading.next_at - reading.at
    if seconds < 1.0:
        return ""
    wait = voice.duration(round(seconds))
    if reading.resting:
        return f"  waits {wait} for {counted(reading.resting, 'host')} that failed"
    return f"  next request in {wait}"


@contextmanager
def shown(
    *, every: float | None = None, polls: bool = False, budget: float | None = None, network: bool = False
) -> Iterator[Progress]:
    """A progress line for as long as the block lasts; see `Progress`."""
    progress = Progress(every=every, polls=polls, budget=budget, network=network)
    try:
        yield progress
    finally:
        progress.close()


def budget(seconds: float | None) -> str:
    """A budget of one poll in so many seconds, for people."""
    return "what politeness allows" if seconds is None else voice.rate(1 / seconds)


def beginning(settings: Settings, directory: str, order: Order | None) -> str:
    """What is about to be done."""
    agent = settings.crawl.user_agent
    if order is None:
        return f"crawling into `{directory}` as {agent}"
    how = "one round" if order.once else f"by `{settings.refresh.policy}`"
    return f"refreshing `{directory}` as {agent}: {how}, at {budget(settings.refresh.budget)}"


def tell(summary: Summary, settings: Settings, directory: str, order: Order | None = None) -> None:
    """The end of a crawl in a few sentences, and what can be done next."""
    count = voice.number
    if summary.refreshed is not None:
        voice.say(f"{summary.refreshed}")
        if summary.refreshed.useful_ratio is not None:
            voice.say(f"{summary.refreshed.useful_ratio:.0%} of the polls showed something new")
        for reason, times in sorted(summary.refreshed.reasons.items(), key=lambda item: -item[1])[:6]:
            voice.say(f"  {count(times):>7}  {reason}")
        for rest in summary.refreshed.resting[:6]:
            voice.say(f"{rest}; its pages come first in the next round")
    speed = f" ({count(summary.pages_per_second)} pages/s)" if order is None else ""
    # Where others were fetched before, only the time is of this run. The speed is rounded.
    alone = order is None and summary.pages_per_second * summary.seconds >= 0.97 * summary.pages - 1
    # Hosts that come to an agent of a network have mostly given others pages before.
    hosts = f" from {counted(summary.giving_hosts, 'host')}" if summary.whole is None else ""
    voice.say(
        f"{counted(summary.pages, 'page')}{hosts},"
        f" {voice.size(summary.bytes)}{', in' if alone else '; this run took'}"
        f" {voice.duration(summary.seconds)}{speed}"
    )
    others = f"{count(summary.moved)} moved, {count(summary.refused)} refused, {count(summary.failed)} failed"
    if summary.whole is None:
        voice.say(f"{counted(summary.seen, 'URL')} seen: {others}, {count(summary.waiting)} waiting")
    else:  # what waits is nobody's own
        voice.say(f"{counted(summary.seen - summary.waiting, 'URL')} settled by this agent: {others}")
    for reason, times in sorted(summary.reasons.items(), key=lambda item: -item[1])[:6]:
        voice.say(f"  {count(times):>7}  {reason}")
    for rule, links in summary.dropped_links.items():
        voice.say(f"{counted(links, 'link')} {'was' if links == 1 else 'were'} dropped by `{rule}`")
    for channel, changes in summary.untold.items():
        verb = "waits" if changes == 1 else "wait"
        voice.say(f"{counted(changes, 'change')} {verb} to be told by {channel}, in the next run")
    if summary.lost:
        voice.say(
            f"error: {counted(summary.lost, 'URL')} cannot be accounted for, which is a bug in fieldmouse"
        )
        voice.hint(f"`fieldmouse doctor {typed(directory)}` says more; please report it")
    if summary.whole is not None:
        voice.say(
            f"all agents together: {counted(summary.whole.pages, 'page')},"
            f" {counted(summary.whole.seen, 'URL')} seen, {count(summary.whole.waiting)} waiting"
        )
    voice.say(_ending(summary, settings))
    if summary.exit in (3, 130) and summary.whole is not None:
        again = command_of(Path(directory))
        limit = {StoppedBy.PAGES: "--pages N", StoppedBy.TIME: "--time T"}.get(summary.stopped_by)
        if limit is not None:  # it is the crawl's, and counts from its beginning
            voice.hint(f"a higher limit lets it go on, or 0 for none: `{again} {limit}`, for each agent")
        else:
            voice.hint(f"the same command lets it go on: `{again}`")
    elif summary.exit in (3, 130):
        again = "refresh" if order is not None else "resume"
        voice.hint(
            f"continue with `fieldmouse {again} {typed(directory)}`"
            f"{' and the same options' * (order is not None)}"
        )
    elif order is not None and summary.waiting:
        voice.hint(f"`fieldmouse refresh {typed(directory)} --continue` fetches them, too")
    elif order is not None:
        voice.hint(f"`fieldmouse freshness {typed(directory)}` says how fresh the copies are")
    elif summary.pages and summary.whole is not None:
        voice.hint(
            f"search it with `fieldmouse search {typed(directory)} --with OTHER-DIR WORDS`, all agents as one"
        )
    elif summary.pages:
        voice.hint(f"search it with `fieldmouse search {typed(directory)} WORDS`")
    if summary.whole is not None and not summary.exit and OF_HOSTS & summary.reasons.keys():
        again = command_of(Path(directory))
        voice.hint(f"when the hosts that failed here can be reached again: `{again} --retry-failed`")


def _ending(summary: Summary, settings: Settings) -> str:
    waiting = f"{counted(summary.waiting, 'URL')} {'is' if summary.waiting == 1 else 'are'} waiting"
    match summary.stopped_by:
        case StoppedBy.NOTHING:
            if not summary.waiting:
                return "done: nothing is waiting"
            return f"done for now; {waiting}"
        case StoppedBy.PAGES:
            return f"stopped by the limit of {counted(settings.crawl.pages, 'page')}; {waiting}"
        case StoppedBy.TIME:
            return f"stopped by the limit of {voice.duration(settings.crawl.time)}; {waiting}"
        case StoppedBy.DISK:
            return (
                f"stopped: less than {voice.size(settings.storage.min_free)} are free on the disk; {waiting}"
            )
        case StoppedBy.SIGNAL:
            return f"stopped by you; {waiting}"
        case StoppedBy.DRAINED:
            return f"asked to leave (`fieldmouse cluster drain`); {waiting} for others"
