"""Replay of a crawl's recorded decisions under other policies, with counting stand-ins for the crawl.

The recorded URLs join the source at their recorded times, and fetch workers come at their recorded times,
to a front of the recorded width. The tested policy decides which URLs go online, through the distributor
that live crawls use. A recorded visit fixes the pace, not the host: if the recorded host is online, it is
visited; otherwise the least recently visited host online is. A replay therefore shows how a policy uses
the front and the disk. It does not show how many pages it would have fetched: with few hosts online a
live crawl would have waited for their delays, and found other links.

A replay under the recorded policy gives the same decisions, one for one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from fieldmouse.config.settings_file import Settings, load
from fieldmouse.crawler.builder import policy_options
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.frontier.distribution_decision_log import TICK, DecisionObserver, EventKind, RecordedRun, read_runs
from fieldmouse.frontier.distributor import Distributor
from fieldmouse.frontier.queues.queue_index import MemoryHostNumbers
from fieldmouse.frontier.queues.sieved_urls import ReadyItem
from fieldmouse.frontier.queues.virtualizer import MemoryHostQueues
from fieldmouse.policy.distribution import registry
from fieldmouse.policy.distribution.registry import POLICIES, DistributionPolicy
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.host_state import HostState
from fieldmouse.url import Host
from fieldmouse_lab.catalogue import Figure, Panel, Series
from fieldmouse_lab.front_course import FrontCourse, FrontMeasures, FrontPoint


class _Alike(dict[int, bytes]):
    """Mapping with the same empty request under every number."""

    def __missing__(self, number: int) -> bytes:
        return b""


class CountedFront:
    """Numbers for indistinguishable URLs; replaces the front log."""

    def __init__(self) -> None:
        self._next = 0
        self.links_by_ticket = _Alike()

    def add_url_tickets(self, links: Iterable[bytes]) -> list[int]:
        first = self._next
        self._next += sum(1 for _ in links)
        return list(range(first, self._next))

    def close_tickets(self, numbers: Iterable[int]) -> int:
        return 0


class CountedWorkbench:
    """Hosts online with their URL counts, least recently visited first; replaces the workbench."""

    def __init__(self) -> None:
        self._online: OrderedDict[Host, int] = OrderedDict()
        self._urls = 0
        self._out = 0  # held by fetch workers

    @property
    def url_count(self) -> int:
        return self._urls - self._out

    def set_in_flight(self, urls: int) -> None:
        """Set the number of URLs held by fetch workers."""
        self._out = urls

    def __len__(self) -> int:
        return len(self._online)

    def __contains__(self, host: Host) -> bool:
        return host in self._online

    def add_urls(self, host: Host, state: HostState, numbers: Iterable[int]) -> None:
        count = sum(1 for _ in numbers)
        self._online[host] = self._online.get(host, 0) + count
        self._urls += count

    def take_offline(self, host: Host) -> list[int]:
        count = self._online.pop(host)
        self._urls -= count
        return [0] * count

    def visit(self, host: Host, urls: int) -> tuple[Host, int] | None:
        """Return the host that a fetch worker visits (`host` if online) and the number of URLs it uses.

        None if no host is online.
        """
        if host not in self._online:
            if not self._online:
                return None
            host = next(iter(self._online))
        used = min(urls, self._online[host])
        self._urls -= used
        if used == self._online[host]:
            del self._online[host]
        else:
            self._online[host] -= used
            self._online.move_to_end(host)
        return host, used


class CountedHostTable(MemoryHostNumbers):
    """Addresses of hosts; replaces the host table."""

    def __init__(self) -> None:
        super().__init__()
        self._states: dict[Host, HostState] = {}

    def locate(self, host: Host, address: str) -> None:
        self._states[host] = HostState(address=address)

    def get(self, host: Host) -> HostState:
        return self._states.get(host, _UNKNOWN)

    def get_or_add(self, host: Host) -> HostState:
        return self.get(host)


_UNKNOWN = HostState()


class NothingRecorded(FieldmouseError):
    """The crawl recorded no decisions."""


class Played(msgspec.Struct, frozen=True):
    """A policy, its parameters, and its measures on the record."""

    policy: str
    parameters: dict[str, object]
    fare: FrontMeasures
    elsewhere: int = 0  # visits to another host than recorded
    same: bool = False  # its decisions equal those recorded, one for one


class Replay(msgspec.Struct, frozen=True):
    """One run of a crawl, as recorded and under other policies."""

    run: int  # counted from 1
    runs: int
    started_at: float
    ended: str  # "closed"; "full" if the file was full; "" if the crawl was killed
    recorded: Played
    played: tuple[Played, ...]


def replay(
    directory: Path, names: Sequence[str], parameters: Mapping[str, object], *, number: int | None = None
) -> Replay:
    """Replay the crawl recorded in `directory` under the named policies, or under all built-in ones.

    A policy gets the parameters it would have in that crawl, overridden by `parameters`. `number` selects
    the run, from 1; None means the longest.
    """
    home = CrawlDir.open(directory)
    runs = read_runs(home / "decisions.log")
    if not runs:
        raise NothingRecorded(
            f"`{directory}` has no record of decisions", "crawl with `frontier.record_decisions` of more than 0B"
        )
    if number is None:
        number = 1 + max(range(len(runs)), key=lambda place: len(runs[place]))
    if not 1 <= number <= len(runs):
        raise UsageError(f"there is no run {number} in `{directory}`", f"it has {len(runs)}")
    run = runs[number - 1]
    start = run.start
    policies = []
    for name in names or POLICIES:
        registry.find_policy_class(name)
        usual = start.options if name == start.policy else policy_options(_settings(home), name)
        policies.append((name, {**usual, **parameters}))
        registry.create_policy(*policies[-1])  # check all parameters before the first replay
    before = FrontCourse()
    replay_events(run, before)
    as_it_was = Played(start.policy, dict(start.options), before.measures(), same=True)
    played = []
    for name, given in policies:
        course = FrontCourse(compared=before.decisions)
        elsewhere = play_policy(run, registry.create_policy(name, given), course)
        same = (course.checksum, elsewhere) == (before.checksum, 0)
        played.append(Played(name, given, course.measures(), elsewhere, same))
    return Replay(number, len(runs), start.at, run.ended, as_it_was, tuple(played))


def replay_figure(found: Replay) -> Figure:
    """Hosts online and URLs offline over time, as recorded and under each policy."""
    lines = [("as recorded", found.recorded), *((one.policy, one) for one in found.played)]

    def panel(label: str, value: Callable[[FrontPoint], int]) -> Panel:
        return Panel(
            "seconds",
            label,
            tuple(
                Series(
                    name,
                    [at.seconds for at in one.fare.course],
                    [float(value(at)) for at in one.fare.course],
                    # Dashes, because the replay of the recorded policy would hide the recorded curve.
                    "dashes" if one.same and one is not found.recorded else "line",
                )
                for name, one in lines
            ),
        )

    panels = panel("hosts online", lambda at: at.online), panel("URLs offline", lambda at: at.backlog)
    return Figure("replay", "A crawl as it was, and under other policies", panels)


def _settings(home: CrawlDir) -> Settings:
    path = home / "fieldmouse.toml"
    return load(path) if path.is_file() else Settings()


def replay_events(run: RecordedRun, witness: DecisionObserver) -> None:
    """Send all recorded events to the witness, decisions included."""
    names, start = run.names, run.start
    source: deque[Host] = deque()
    drawn, width = "", 0
    witness.run_started(start.at, unlisted=start.unlisted, batch=start.batch)
    for act, value, second in run.events():
        match act:
            case EventKind.ARRIVED:
                source.append(Host(names[value]))
                witness.urls_discovered((source[-1],))
            case EventKind.SEATED:
                witness.urls_put_online_without_decision(Host(names[value]), second)
            case EventKind.HELD:
                witness.backlog_restored(Host(names[value]), second)
            case EventKind.KNOWN:
                witness.known_address_shown_to_policy(Host(names[value]), names[second])
            case EventKind.LOCATED:
                witness.ip_address_seen(Host(names[value]), names[second])
            case EventKind.WIDTH:
                width = value
            case EventKind.FED:
                witness.no_host_ready(width, value)
            case EventKind.TAKEN:
                witness.visit_started(width, value)
            case EventKind.LEFT:
                witness.visit_ended(Host(names[value]), second)
            case EventKind.TICK:
                witness.time_passed(start.at + (value + 0.5) * TICK)
            case EventKind.NAMED:
                drawn = names[value]
            case EventKind.ONLINE | EventKind.STORED:
                witness.url_placed(Host(drawn) if drawn else source.popleft(), act == EventKind.ONLINE)
                drawn = ""
            case EventKind.RECALLED:
                witness.urls_read_from_queue(Host(names[value]), second)
            case EventKind.SENT_OFF:
                witness.host_taken_offline(Host(names[value]), second)
            case EventKind.RESTED:
                (witness.rest_continued if second else witness.rest_ended)(Host(names[value]))


def play_policy(run: RecordedRun, policy: DistributionPolicy[int], witness: DecisionObserver) -> int:
    """Replay a run under a policy; return the number of visits to another host than recorded."""
    names, start = run.names, run.start
    source, homes = _before(run)
    listed = len(source) == start.unlisted  # otherwise arrivals queue behind URLs that were never named
    front, seats, queues = CountedFront(), CountedWorkbench(), MemoryHostQueues()

    def draw() -> ReadyItem | None:
        return (source.popleft(), b"") if source else None

    distributor = Distributor(
        policy,
        draw=draw,
        queues=queues,
        front=front,
        workbench=seats,
        hosts=homes,
        batch=start.batch,
        decision_log=witness,
    )
    elsewhere = width = 0
    resting: dict[Host, None] = {}  # hosts that left their places, the first one first
    witness.run_started(start.at, unlisted=start.unlisted, batch=start.batch)
    for act, value, second in run.events():
        match act:
            case EventKind.ARRIVED:
                host = Host(names[value])
                witness.urls_discovered((host,))
                if listed:
                    source.append(host)
            case EventKind.SEATED:
                distributor.put_online_without_policy(Host(names[value]), front.add_url_tickets([b""] * second))
            case EventKind.HELD:
                for _ in range(second):
                    queues.append(Host(names[value]), b"")
                distributor.restore_backlog(Host(names[value]), second)
            case EventKind.LOCATED:
                homes.locate(Host(names[value]), names[second])
            case EventKind.WIDTH:
                width = value
            case EventKind.FED:
                seats.set_in_flight(value)
                witness.no_host_ready(width, value)
                if not distributor.bring_hosts_online(width) and elsewhere and resting:
                    # The end of its rest may have been recorded before the replay visited it.
                    host = next(iter(resting))
                    del resting[host]
                    distributor.rest_ended(host)
            case EventKind.TAKEN:
                seats.set_in_flight(value)
                witness.visit_started(width, value)
                if len(seats) < width and len(source) + len(queues):
                    distributor.bring_hosts_online(width)
            case EventKind.LEFT:
                host = Host(names[value])
                visited = seats.visit(host, second) if second or host in seats else None
                if visited is not None:
                    elsewhere += visited[0] != host
                    if distributor.visit_ended(visited[0], homes.get(visited[0]), visited[1]):
                        resting[visited[0]] = None
            case EventKind.RESTED:
                host = Host(names[value])
                if second and distributor.continue_rest(host):
                    resting[host] = None
                elif host in resting:
                    del resting[host]
                    distributor.rest_ended(host)
            case EventKind.TICK:
                witness.time_passed(start.at + (value + 0.5) * TICK)
    return elsewhere


def _before(run: RecordedRun) -> tuple[deque[Host], CountedHostTable]:
    """State at the start of the run, as far as later events reveal it: the source, and addresses of hosts."""
    source: deque[Host] = deque()
    homes = CountedHostTable()
    for act, value, second in run.events():
        if act == EventKind.NAMED:
            source.append(Host(run.names[value]))
        elif act == EventKind.KNOWN:
            homes.locate(Host(run.names[value]), run.names[second])
    return source, homes
