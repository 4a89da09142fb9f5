"""Recorded decisions, and what a replay makes of them: live crawl and lab must take the same ones."""

from __future__ import annotations

import json
import tempfile
from collections import deque
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auto_advance_clock import AutoAdvanceClock
from fieldmouse.cli import main
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.crawler.builder import open_decision_log
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.frontier.distribution_decision_log import DecisionLog, Event, EventKind, RecordedRun, read_runs
from fieldmouse.frontier.frontier import Frontier
from fieldmouse.policy.distribution.registry import POLICIES
from fieldmouse.policy.front_size import FrontSizeRule
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.host_state import HostState
from fieldmouse.types.request import HostVisit, Request
from fieldmouse.url import Host, Url
from fieldmouse_lab.front_course import FrontCourse
from fieldmouse_lab.replay import CountedWorkbench, NothingRecorded, play_policy, replay, replay_events, replay_figure

NOW = 1_000_000.0
OPTIONS: dict[str, dict[str, object]] = {"index": {"depth": 3, "per_address": 2}, "mice-and-elephants": {"delta": 2}}

deeds = st.lists(
    st.one_of(
        st.tuples(st.just("find"), st.lists(st.integers(0, 60).map(lambda n: n * n % 61), max_size=40)),
        st.tuples(st.just("take"), st.integers(1, 12)),
        st.tuples(st.just("return"), st.integers(0, 4)),
        st.tuples(st.just("again"), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.integers(1, 30)),
        st.tuples(st.just("seal"), st.booleans()),
    ),
    max_size=40,
)


class Life:
    """A frontier whose every decision is recorded, with robots, kills and resumes as a test wishes."""

    def __init__(self, path: Path, policy: str, *, limit: int = 1 << 30, front: FrontSizeRule | None = None) -> None:
        self.path, self.policy, self.limit = path, policy, limit
        self.front = front or FrontSizeRule(minimum=4, maximum=12)
        self.clock = AutoAdvanceClock(NOW)
        self.pages = 0
        self.out: deque[HostVisit] = deque()
        self.log: DecisionLog | None = None
        self.start_run(None)

    def start_run(self, state: object) -> None:
        options = OPTIONS.get(self.policy, {})
        if self.log is not None:
            self.log.flush()  # as if the kill came just after
        self.log = DecisionLog(self.path / "decisions.log", limit=self.limit, policy=self.policy, options=options)
        self.frontier = Frontier(
            self.path / "frontier",
            key_seed=7,
            clock=self.clock,
            policy=POLICIES[self.policy](**options),
            front=self.front,
            errand_links=3,
            state=state,  # type: ignore[arg-type]
            resumed_delay=lambda _: 1.0,
            decision_log=self.log,
        )
        self.frontier.roll_back_to_checkpoint()

    def find(self, hosts: list[int]) -> None:
        first, self.pages = self.pages, self.pages + len(hosts)
        self.frontier.discover([Request(Url(f"http://h{host}.example/{first + n}")) for n, host in enumerate(hosts)])

    def take(self, most: int) -> None:
        for _ in range(most):
            visit = self.frontier.take_visit(self.clock.now())
            if visit is None:
                return
            self.out.append(visit)

    def give_back(self, used: int) -> None:
        """The oldest errand comes home: first only with an address, then with `used` URLs visited."""
        if not self.out:
            return
        visit = self.out.popleft()
        number = int(visit.host.removeprefix("http://h").removesuffix(".example"))
        used = min(used, len(visit.tickets)) if visit.address else 0
        state = msgspec.structs.replace(
            visit.state,
            address=f"10.0.0.{number % 5}",
            ready_at=self.clock.now() + 2.0 * used,
            verdict="host given up" if number == 13 and used else "",
        )
        self.frontier.end_visit(visit, state, visit.tickets[used:])
        self.frontier.mark_durably_done([ticket.number for ticket in visit.tickets[:used]])

    def again(self, wait: int) -> None:
        if self.out and self.out[0].address and self.out[0].tickets:
            visit = self.out.popleft()
            ticket = visit.tickets[0]
            later = self.clock.now() + wait if wait else 0.0
            state = msgspec.structs.replace(visit.state, ready_at=self.clock.now() + 1.0)
            self.frontier.end_visit(visit, state, visit.tickets[1:])
            self.frontier.retry_ticket(ticket.number, msgspec.structs.replace(ticket.link, not_before=later))

    def seal(self, killed: bool) -> None:
        state = self.frontier.seal().state
        self.frontier.on_checkpoint_committed()
        if killed:
            self.out.clear()
            self.start_run(state)

    def live(self, deeds: list[tuple[str, object]]) -> None:
        for deed, how in deeds:
            match deed:
                case "find":
                    self.find(how)  # type: ignore[arg-type]
                case "take":
                    self.take(how)  # type: ignore[arg-type]
                case "return":
                    for _ in range(3):
                        self.give_back(how)  # type: ignore[arg-type]
                case "again":
                    self.again(how)  # type: ignore[arg-type]
                case "wait":
                    self.clock.advance(how)  # type: ignore[arg-type]
                case "seal":
                    self.seal(how)  # type: ignore[arg-type]


def told(run: RecordedRun) -> list[tuple[int, str | int, int]]:
    """Events with names for numbers, since two records may number names differently."""
    unnamed = {EventKind.WIDTH, EventKind.FED, EventKind.TAKEN, EventKind.TICK, EventKind.ONLINE, EventKind.STORED}
    places = {EventKind.KNOWN, EventKind.LOCATED}

    def by_name(event: Event) -> tuple[int, str | int, int]:
        act, value, second = event
        whom = value if act in unnamed else run.names[value]
        return act, whom, hash(run.names[second]) if act in places else second

    return [by_name(event) for event in run.events()]


def played_again(run: RecordedRun, policy: str, path: Path) -> RecordedRun:
    witness = DecisionLog(path, limit=1 << 30, policy=policy, options={})
    assert play_policy(run, POLICIES[policy](**OPTIONS.get(policy, {})), witness) == 0
    witness.close()
    return read_runs(path)[-1]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(POLICIES)), deeds)
def test_replay_under_the_recorded_policy_gives_the_same_decisions(
    policy: str, deeds: list[tuple[str, object]]
) -> None:
    """Everything that was written down, outside and answers, comes out again in the same order."""
    with tempfile.TemporaryDirectory() as room:
        life = Life(Path(room), policy)
        life.live(deeds)
        life.frontier.close()
        for number, run in enumerate(read_runs(Path(room) / "decisions.log")):
            assert told(played_again(run, policy, Path(room) / f"again-{number}.log")) == told(run)


FULL_LIFE: list[tuple[str, object]] = [
    ("find", [n * n % 61 for n in range(40)]),
    *[
        step
        for turn in range(60)
        for step in (
            ("take", 6),
            ("return", turn % 3),
            ("find", [(turn + n * n) % 61 for n in range(9)] + [0, 1, 0]),
            ("again", turn % 2),
            ("wait", 1 + turn % 4),
        )
    ],
]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    lived = Life(tmp_path_factory.mktemp("life"), "index")
    lived.live(FULL_LIFE)
    lived.frontier.close()
    return lived


def test_a_long_run_with_all_events_can_be_replayed(life: Life, tmp_path: Path) -> None:
    (run,) = read_runs(life.path / "decisions.log")
    assert run.ended == "closed"
    acts = {act for act, _, _ in run.events()}
    # The others are of runs that find something from before: the resumes of the test above.
    assert acts == set(EventKind) - {EventKind.HELD, EventKind.KNOWN, EventKind.NAMED}
    assert told(played_again(run, "index", tmp_path / "again.log")) == told(run)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_resumed_run_with_waiting_urls_can_be_replayed(policy: str, tmp_path: Path) -> None:
    life = Life(tmp_path, policy)
    many = ("find", [n % 7 for n in range(300)])
    life.live([many, *FULL_LIFE[:100], many, ("seal", True), *FULL_LIFE[1:]])
    life.frontier.close()
    before, after = read_runs(tmp_path / "decisions.log")
    acts = {act for act, _, _ in after.events()}
    assert acts >= {EventKind.KNOWN, EventKind.NAMED, EventKind.SEATED}
    assert (EventKind.HELD in acts) == (policy != "neutral")
    assert told(played_again(before, policy, tmp_path / "before.log")) == told(before)
    assert told(played_again(after, policy, tmp_path / "after.log")) == told(after)


def test_urls_in_flight_leave_room_for_others_in_a_replay(tmp_path: Path) -> None:
    """One host has more URLs than the front may hold, so how many are out decides what is drawn."""
    life = Life(tmp_path, "neutral", front=FrontSizeRule(minimum=2, maximum=2))
    life.live([("find", [0] * 400), *[("take", 1), ("return", 0), ("take", 1), ("return", 2), ("wait", 5)] * 20])
    life.frontier.close()
    (run,) = read_runs(tmp_path / "decisions.log")
    assert 128 < sum(act == EventKind.ONLINE for act, _, _ in run.events()) < 400
    assert told(played_again(run, "neutral", tmp_path / "again.log")) == told(run)


def test_replay_measures_equal_the_counts_of_the_frontier(life: Life) -> None:
    (run,) = read_runs(life.path / "decisions.log")
    course = FrontCourse()
    replay_events(run, course)
    assert course.draws == life.frontier._distributor.draws
    assert course.appends == life.frontier._distributor.appends
    last = list(course.points())[-1]
    assert last.seconds <= life.clock.now() - NOW


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_under_another_policy_no_url_is_lost_or_made_up(life: Life, policy: str) -> None:
    (run,) = read_runs(life.path / "decisions.log")
    seated = sum(second for act, _, second in run.events() if act == EventKind.SEATED)
    course = FrontCourse()
    play_policy(run, POLICIES[policy](), course)
    fare = course.measures()
    online = sum(course._online.values())
    assert fare.draws + seated == fare.urls + online + fare.backlog
    assert fare.draws <= sum(act == EventKind.ARRIVED for act, _, _ in run.events())


def test_a_visit_goes_to_the_host_recorded_or_to_the_one_that_rested_longest() -> None:
    seats, state = CountedWorkbench(), HostState()
    for host, urls in (("a", 2), ("b", 3), ("c", 1)):
        seats.add_urls(Host(host), state, range(urls))
    assert seats.visit(Host("b"), 1) == ("b", 1)
    assert seats.visit(Host("nowhere"), 1) == ("a", 1)
    assert seats.visit(Host("nowhere"), 5) == ("c", 1), "no more than it has"
    assert seats.visit(Host("nowhere"), 1) == ("b", 1)
    assert seats.visit(Host("nowhere"), 1) == ("a", 1)
    assert seats.visit(Host("b"), 1) == ("b", 1)
    assert len(seats) == 0
    assert seats.visit(Host("b"), 1) is None


def test_a_torn_tail_is_cut_and_the_next_run_follows_it(life: Life, tmp_path: Path) -> None:
    whole = (life.path / "decisions.log").read_bytes()
    path = tmp_path / "decisions.log"
    for length in range(0, len(whole), max(1, len(whole) // 50)):
        path.write_bytes(whole[:length])
        before = read_runs(path)
        second = DecisionLog(path, limit=1 << 30, policy="neutral", options={})
        second.run_started(NOW, unlisted=0, batch=2)
        second.urls_discovered([Host("http://a.example")])
        second.close()
        runs = read_runs(path)
        assert len(runs) == len(before) + 1
        assert [told(run) for run in runs[:-1]] == [told(run) for run in before]
        assert runs[-1].start.policy == "neutral"
        assert told(runs[-1]) == [(EventKind.ARRIVED, "http://a.example", 0)]


def test_at_its_limit_the_record_ends_and_what_it_holds_is_still_true(tmp_path: Path) -> None:
    limit = 2600
    life = Life(tmp_path, "index", limit=limit)
    for deed in FULL_LIFE:
        life.live([deed])
        if deed[0] == "wait":
            life.seal(killed=False)
    life.seal(killed=True)
    life.live(FULL_LIFE[:5])
    life.frontier.close()
    path = tmp_path / "decisions.log"
    assert path.stat().st_size <= limit
    (run,) = read_runs(path)  # a full record takes no more runs
    assert run.ended == "full"
    told_before = told(run)
    assert 20 < len(told_before) < 2000
    # What was cut off may have been the second half of a decision, which a replay completes.
    assert told(played_again(run, "index", tmp_path / "again.log"))[: len(told_before)] == told_before


@pytest.fixture
def home(life: Life, tmp_path: Path) -> Path:
    """A crawl directory with the record of that life."""
    crawl = CrawlDir.create(tmp_path / "c", shards=1, settings=render(Settings()).encode())
    (crawl / "decisions.log").write_bytes((life.path / "decisions.log").read_bytes())
    return crawl.path


def test_a_replay_compares_all_policies_and_knows_the_recorded_one_again(home: Path) -> None:
    found = replay(home, [], {})
    assert [one.policy for one in found.played] == list(POLICIES)
    assert {one.policy for one in found.played if one.same} == {"index"}
    assert found.recorded.policy == "index"
    assert found.recorded.parameters == OPTIONS["index"]
    same = next(one for one in found.played if one.same)
    assert same.fare == found.recorded.fare
    neutral = next(one for one in found.played if one.policy == "neutral")
    assert neutral.fare.appends == neutral.fare.backlog == 0
    assert 0 < neutral.elsewhere <= neutral.fare.visits


def test_parameters_change_the_replay(home: Path) -> None:
    (deep,) = replay(home, ["index"], {"depth": 50}).played
    assert deep.parameters == {"depth": 50, "per_address": 2}
    assert not deep.same


@pytest.mark.parametrize(
    ("names", "parameters", "number", "said", "advice"),
    [
        (["indx"], {}, None, "there is no policy `indx`", "it is one of index, "),
        (["no_such.module:Thing"], {}, None, "cannot be imported", "install the package"),
        (["collections:deque"], {}, None, "is no policy: it has no `next_queue_to_read`", "docs/guides"),
        (["fieldmouse.url:parse"], {}, None, "is no policy: it is no class", "docs/guides"),
        (["index"], {"delta": 3}, None, "has no parameter `delta`", "it knows per_address"),
        (["index"], {"depth": "abc"}, None, "is a whole number, and `abc` is none", "such as 1"),
        (["index"], {"depth": True}, None, "is a whole number", "such as 1"),
        (["index"], {"per_address": 0}, None, "cannot be 0", "1 or more"),
        (["mice-and-elephants"], {"delta": float("nan")}, None, "is a whole number", "such as 5"),
        (["mice-and-elephants"], {"own_queues": "perhaps"}, None, "is true or false", "such as false"),
        ([], {}, 2, "there is no run 2", "it has 1"),
    ],
)
def test_invalid_replays_are_refused_with_a_message(
    home: Path, names: list[str], parameters: dict[str, object], number: int | None, said: str, advice: str
) -> None:
    with pytest.raises(UsageError) as trouble:
        replay(home, names, parameters, number=number)
    assert said in str(trouble.value)
    assert advice in trouble.value.hint


def test_a_crawl_that_recorded_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(FieldmouseError, match="holds no crawl"):
        replay(tmp_path, [], {})
    crawl = CrawlDir.create(tmp_path / "c", shards=1, settings=render(Settings()).encode())
    with pytest.raises(NothingRecorded, match="has no record of decisions"):
        replay(crawl.path, [], {})


def test_the_command_shows_a_table_or_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command(["lab", "replay", str(home)]) == 0
    said = capsys.readouterr()
    heads, *rows = said.out.splitlines()
    assert heads.split() == "policy hosts online of the front draws appends reads backlog elsewhere".split()
    assert [row.split()[0] for row in rows] == ["index", *POLICIES]
    assert "as recorded" in rows[0]
    assert [row for row in rows if "the same decisions" in row] == rows[1:2]
    assert "visits in" in said.err
    assert main.run_command(["lab", "replay", str(home), "--policy", "neutral", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["played"][0]["policy"] == "neutral"
    assert {"hosts_online", "draws", "appends", "reads", "backlog", "course"} <= set(told["recorded"]["fare"])


def test_a_plot_shows_every_policy_over_time(home: Path, tmp_path: Path) -> None:
    drawn = replay_figure(replay(home, [], {}))
    assert [panel.y_label for panel in drawn.panels] == ["hosts online", "URLs offline"]
    for panel in drawn.panels:
        assert [series.label for series in panel.series] == ["as recorded", *POLICIES]
        assert list(panel.series[0].y) == list(panel.series[1].y)
        assert [series.style for series in panel.series[:3]] == ["line", "dashes", "line"]
    assert main.run_command(["lab", "replay", str(home), "--plot", str(tmp_path / "a.svg"), "--json"]) == 0
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()


def test_nothing_is_recorded_where_it_is_not_wanted(tmp_path: Path) -> None:
    def witness(size: str) -> DecisionLog | None:
        asked = Settings().override({"frontier.record_decisions": size})
        return open_decision_log(CrawlDir.create(tmp_path / size, shards=1, settings=b""), asked)

    assert witness("0B") is None
    assert isinstance(witness("1MiB"), DecisionLog)


def test_an_unknown_policy_is_refused_before_a_directory_is_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["crawl", str(tmp_path / "c"), "--seed", "http://127.0.0.1:1/", "--policy", "no_such.mice:Mouse"]
    assert main.run_command(words) == 2
    assert "`no_such.mice:Mouse` cannot be imported" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--set", "delta=3"], 2, "name a policy with `--policy`"),
        (["--policy", "index", "--set", "depth"], 2, "write it as `--set depth=VALUE`"),
        (["--policy", "inde"], 2, "there is no policy `inde`"),
        (["--run", "7"], 2, "there is no run 7"),
        (["--plot", "a.pdf"], 2, "neither .svg nor .png"),
    ],
)
def test_the_command_refuses_invalid_arguments(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main.run_command(["lab", "replay", str(home), *words]) == code
    assert said in capsys.readouterr().err


def test_the_command_says_when_there_is_no_crawl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command(["lab", "replay", str(tmp_path / "nowhere")]) == 1
    assert "holds no crawl" in capsys.readouterr().err
