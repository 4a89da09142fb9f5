"""The last words of an agent of a network, which is not continued as a crawl of its own is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fieldmouse.api import cluster_admin
from fieldmouse.api.cluster_admin import AgentSummary, ClusterStatus
from fieldmouse.cli import console, main, progress_and_summary
from fieldmouse.cli.cluster import cluster as status
from fieldmouse.cluster.client.identity import UNJOINED_IDENTITY
from fieldmouse.config.settings_file import Settings
from fieldmouse.doctor.check.examine import check_crawl
from fieldmouse.errors import CoordinatorUnreachable
from fieldmouse.reader.explain import NO_OUTCOME_HERE, CombinedExplanation, Explanation
from fieldmouse.reader.polling_and_packing_plans import NoPollsToPack
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.reason import StoppedBy
from fieldmouse.types.stats import ClusterSummary, LiveStats, Summary
from fieldmouse.url import Url

DONE = Summary(
    pages=184,
    hosts=11,
    seconds=29.0,
    pages_per_second=6.3,
    seen=2066,
    waiting=0,
    failed=1,
    refused=0,
    moved=0,
    lost=0,
    bytes=16_000_000,
    peak_rss_mb=200.0,
    exit=0,
    giving_hosts=0,
    whole=ClusterSummary(agents=2, pages=712, seen=2829, booked=713, waiting=0, again=0),
)
STOPPED = msgspec.structs.replace(DONE, exit=130, stopped_by=StoppedBy.SIGNAL, waiting=1881)


def last_words(summary: Summary, said: pytest.CaptureFixture[str]) -> str:
    console.mute_messages(False)  # whoever asked for JSON before us
    progress_and_summary.print_summary(summary, Settings(), "my west")
    return said.readouterr().err


def test_an_agent_that_was_stopped_is_continued_as_an_agent(capsys: pytest.CaptureFixture[str]) -> None:
    told = last_words(STOPPED, capsys)
    assert "`fieldmouse agent 'my west' --coordinator URL`" in told
    assert "resume" not in told
    alone = last_words(msgspec.structs.replace(STOPPED, whole=None), capsys)
    assert "`fieldmouse resume 'my west'`" in alone


def test_an_agent_counts_no_hosts_that_gave_their_first_page_to_others(capsys: pytest.CaptureFixture[str]) -> None:
    told = last_words(DONE, capsys)
    assert "184 pages, 16 MB" in told
    assert "host" not in told.partition("\n")[0]
    assert "--with" in told
    alone = last_words(msgspec.structs.replace(DONE, whole=None, giving_hosts=3), capsys)
    assert "184 pages from 3 hosts" in alone


def test_agent_summary_separates_its_outcomes_from_urls_waiting_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    """2,066 URLs known here, of which 1,881 wait on the board: neither is a count of what this agent saw."""
    told = last_words(STOPPED, capsys)
    assert "185 URLs settled by this agent: 0 moved, 0 refused, 1 failed\n" in told
    assert "all agents together: 712 pages, 2,829 URLs seen, 0 waiting\n" in told
    assert "URLs seen:" not in told
    alone = last_words(msgspec.structs.replace(STOPPED, whole=None), capsys)
    assert "2,066 URLs seen: 0 moved, 0 refused, 1 failed, 1,881 waiting" in alone
    assert "all agents" not in alone


def test_drained_agent_does_not_report_a_stop_by_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    told = last_words(msgspec.structs.replace(STOPPED, stopped_by=StoppedBy.DRAINED), capsys)
    assert "left on request (`fieldmouse cluster drain`); 1,881 URLs are waiting for other agents" in told
    assert "`fieldmouse agent 'my west' --coordinator URL`" in told
    assert "by you" not in told


@pytest.mark.parametrize(("by", "word"), [(StoppedBy.PAGE_LIMIT, "--pages N"), (StoppedBy.TIME_LIMIT, "--time T")])
def test_agent_stopped_by_a_limit_gets_a_hint_with_a_higher_limit(
    by: StoppedBy, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = last_words(msgspec.structs.replace(STOPPED, exit=3, stopped_by=by), capsys)
    assert f"`fieldmouse agent 'my west' --coordinator URL {word}`" in told
    assert "same command" not in told


def test_agent_progress_counts_held_hosts() -> None:
    reading = LiveStats(
        at=1.0, pages=5, hosts=76, ready=1, front=3, buffered=0, robots=2, waiting=900, failed=0, seen=905, bytes=0
    )
    line = progress_and_summary.ProgressLine(network=True)
    line.show(reading)
    assert "  3 hosts held (1 ready)" in line.line(reading)
    assert "  waiting 900 for all" in line.line(reading)
    alone = progress_and_summary.ProgressLine()
    alone.show(reading)
    assert "  76 hosts (1 ready)" in alone.line(reading)
    assert "  waiting 900  failed" in alone.line(reading)


def test_a_round_without_a_budget_shows_its_speed_alone() -> None:
    reading = LiveStats(
        at=1.0, pages=5, hosts=2, ready=1, front=2, buffered=0, robots=0, waiting=0, failed=0, seen=5, bytes=0, polls=10
    )
    later = msgspec.structs.replace(reading, at=3.0, polls=14)
    free, bound = (
        progress_and_summary.ProgressLine(polls=True),
        progress_and_summary.ProgressLine(polls=True, budget=7.2),
    )
    for line in (free, bound):
        line.show(reading)
    assert free.line(reading).startswith("0 polls  0/s  changed 0")
    for line in (free, bound):
        line.show(later)
    assert free.line(later).startswith("4 polls  2/s  0% useful")
    assert bound.line(later).startswith("4 polls  2/s of 500/h  0% useful")


@pytest.mark.parametrize(("agent", "verb"), [(UNJOINED_IDENTITY, "agent"), (b"", "resume")])
def test_hints_name_the_command_that_continues_the_directory(agent: bytes, verb: str, tmp_path: Path) -> None:
    home = CrawlDir.create(tmp_path / "east", shards=1, settings=b"", agent=agent)
    (advice,) = [each.advice for each in check_crawl(home) if each.what == "journal"]
    assert f"`fieldmouse {verb} {home.path}" in advice
    assert ("--coordinator URL" in advice) is bool(agent)
    # `fieldmouse refresh` is refused there.
    assert ("refresh.on=true" in home.poll_command_line()) is bool(agent)
    assert home.poll_command_line("500/h") in NoPollsToPack(home).hint


def test_agents_that_know_nothing_of_a_url_are_named_in_one_line() -> None:
    knows = Explanation(Url("http://a.test/"), "done", ["fetched once"])
    silent = Explanation(Url("http://a.test/"), "unknown", [NO_OUTCOME_HERE])
    told = CombinedExplanation(knows.url, "done", "b", [], {"a": silent, "b": knows, "c": silent})
    assert told.lines == ["http://a.test/", "  in `b`:", "    fetched once", "  `a` and `c` have no outcome of it"]


def test_status_tells_agents_that_left_from_those_that_are_here() -> None:
    here = AgentSummary("ox-1", "alive", 2, 40, 3, 0.0, 0.1, 1.4, "ox", "/crawl/a")
    left = msgspec.structs.replace(here, agent="owl-2", state="left", hosts=0, seen_ago=419.7)
    unheard = AgentSummary("elk-3", "left", 0, 0, 0, 0.0, 0.0, 0.0, "", "")
    told = ClusterStatus("news", 9, 5, 4, 2, 5, 419.7, False, [here, left, unheard])
    head, _, *rows = status.status_lines(told)
    assert head.endswith("; 1 agent, started 7 min ago")
    assert [row.split()[:2] for row in rows] == [["ox-1", "alive"], ["owl-2", "left"], ["elk-3", "left"]]
    assert "1 s ago" in rows[0]
    assert "7 min ago" in rows[1]
    assert rows[2].split() == ["elk-3", "left"]


def test_top_waits_for_a_server_that_went_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    going = ClusterStatus("news", 9, 5, 4, 2, 5, 60.0, False, [])
    answers = [going, CoordinatorUnreachable("the board is away"), msgspec.structs.replace(going, done=True)]

    def standing(*_: object) -> ClusterStatus:
        answer = answers.pop(0)
        if isinstance(answer, CoordinatorUnreachable):
            raise answer
        return answer

    monkeypatch.setattr(cluster_admin, "cluster_status", standing)
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert main.run_command(["cluster", "top", "--coordinator", "redis://board.test:1/0"]) == 0
    assert "the board is away; waiting for it" in capsys.readouterr().err
    answers[:] = [CoordinatorUnreachable("the board is away")]
    assert main.run_command(["cluster", "top", "--coordinator", "redis://board.test:1/0"]) == 1


def test_the_status_says_how_many_values_were_set_aside() -> None:
    told = ClusterStatus("atlas", 9, 9, 0, 2, 8, 60.0, True, [], quarantined=1)
    assert status.status_lines(told)[-1].endswith(
        "1 value on the server could not be read and was set aside (see docs/network.md#damaged-values)"
    )
    assert "set aside" not in status.status_lines(msgspec.structs.replace(told, quarantined=0))[0]
