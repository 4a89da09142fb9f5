"""Agents as processes on a real server, and the commands that manage them."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fieldmouse.api import agent_preparation
from fieldmouse.cli import main
from fieldmouse.cluster.client.identity import UNJOINED_IDENTITY, begin_start, is_agent_directory
from fieldmouse.cluster.client.session import open_coordinator
from fieldmouse.cluster.coordinator import AgentId, CrawlSpec, LinkOffer, SiteBounds
from fieldmouse.config.settings_file import Settings, render
from fieldmouse.errors import CoordinatorDataLost, UsageError
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import Host
from meadowland import running_meadow
from whole import crawling

from .audits import audit_of_server
from .coordinators import RedisWorld, ServerProcess, a_server, needs_server

Said = pytest.CaptureFixture[str]


def asked(said: Said, *words: object, expect: int = 0) -> dict[str, object]:
    assert main.run_command([*map(str, words), "--json"]) == expect
    told: dict[str, object] = json.loads(said.readouterr().out)
    return told


def agents_in(status: dict[str, object]) -> list[dict[str, object]]:
    listed = status["agents"]
    assert isinstance(listed, list)
    return listed


def test_two_agents_crawl_a_meadow_and_the_status_reports_it(
    server: ServerProcess, tmp_path: Path, capfd: Said
) -> None:
    where = ("--coordinator", server.url, "--crawl", "pair")
    with running_meadow(hosts=6, pages=60, seed=2, page_kb=1.0) as meadow:
        seeds = [word for seed in meadow.seeds for word in ("--seed", seed)]
        manners = ("--scope", "web", "--delay", "20ms", "--allow-private", "--json")
        first = crawling.start("agent", tmp_path / "a", *where, *seeds, *manners)
        second = crawling.start("agent", tmp_path / "b", *where, "--allow-private", "--json")
        told = [json.loads(process.communicate(timeout=300)[0]) for process in (first, second)]
        assert [process.returncode for process in (first, second)] == [0, 0]
        crawling.run("crawl", tmp_path / "alone", *seeds, *manners)
    both = [row["url"] for name in "ab" for row in crawling.exported(tmp_path / name)]
    assert sorted(both) == sorted(row["url"] for row in crawling.exported(tmp_path / "alone"))
    status = asked(capfd, "cluster", "status", *where)
    assert status["done"] is True
    assert status["pages"] == len(both) == sum(one["pages"] for one in told)
    assert status["seen"] == status["booked"]
    assert status["waiting"] == 0

    # A machine is lost for good: another agent fetches its pages again.
    lost = json.loads((tmp_path / "a" / "agent.json").read_text())["agent"]
    left = {each["agent"]: each for each in agents_in(status)}
    assert {each["state"] for each in left.values()} == {"left"}
    assert left[lost]["directory"] == str(tmp_path / "a")
    again = asked(capfd, "cluster", "forget", lost, "--again", *where)["again"]
    assert again == told[0]["seen"]
    status = asked(capfd, "cluster", "status", *where)
    assert status["waiting"] == again
    assert [each["agent"] for each in agents_in(status)] == [name for name in left if name != lost]


def test_status_reports_hosts_that_no_agent_can_be_granted(server: ServerProcess, capfd: Said) -> None:
    world = RedisWorld(server)

    async def strand(hosts: Sequence[Host]) -> None:
        board = world.board()
        await board.create_crawl(CrawlSpec(1, "", ()))
        cyd = AgentId("cyd", 1)
        await board.join(cyd, 100.0)
        await board.offer_links(
            [LinkOffer(host, "e.test", [(key, b"row")]) for key, host in enumerate(hosts)], SiteBounds()
        )
        await board.leave(cyd)
        for host in hosts:
            world.misplace(host, "cyd")
        await board.close()

    async def lease() -> None:
        board, ada = world.board(), AgentId("ada", 1)
        await board.join(ada, 100.0)
        assert len(await board.lease_hosts(ada, 9, 9)) == 7
        await board.close()

    hosts = [Host(f"http://{n}.e.test") for n in range(7)]
    asyncio.run(strand(hosts))
    status = asked(capfd, "cluster", "status", "--coordinator", server.url)
    assert status["stranded"] == 7
    assert set(status["stranded_hosts"]) < set(hosts)  # type: ignore[call-overload]
    assert main.run_command(["cluster", "status", "--coordinator", server.url]) == 0
    line = capfd.readouterr().out.splitlines()[1]
    assert line.startswith("fault: 7 hosts with waiting URLs cannot be given to any agent (`http://0.e.test`, ")
    asyncio.run(lease())
    status = asked(capfd, "cluster", "status", "--coordinator", server.url)
    assert (status["stranded"], status["repaired"]) == (0, 7)


def test_wrong_arguments_get_a_readable_error(server: ServerProcess, tmp_path: Path, capfd: Said) -> None:
    nobody = asked(capfd, "cluster", "status", "--coordinator", server.url, "--crawl", "none", expect=1)
    assert nobody["error"] == "the coordinator knows no crawl `none`"
    assert "no coordinator" in str(asked(capfd, "cluster", "status", "--coordinator", "http://x", expect=2)["error"])
    silent = asked(capfd, "cluster", "status", "--coordinator", f"unix://{tmp_path}/nobody", expect=1)
    assert "does not answer" in str(silent["error"])
    bad = asked(capfd, "agent", tmp_path / "a", "--coordinator", server.url, "--crawl", "a b", expect=2)
    assert "no name of a crawl" in str(bad["error"])
    assert not (tmp_path / "a").exists()


def test_an_option_that_contradicts_the_crawl_is_refused(server: ServerProcess, tmp_path: Path, capfd: Said) -> None:
    where = ("--coordinator", server.url, "--crawl", "strict")
    words = "--seed http://127.0.0.1:9/ --delay 1s --set fetch.concurrency=3".split()
    nothing = asked(capfd, "agent", tmp_path / "a", *where, *words, expect=1)
    assert "private address" in str(nothing["error"])
    assert "`--allow-private`" in str(nothing["hint"])
    assert "another crawl (`--crawl NAME`)" in str(nothing["hint"])
    other = asked(capfd, "agent", tmp_path / "b", *where, "--set", "scope.mode=host", expect=2)
    assert '`scope.mode` is "host" here, and "site" in the crawl' in str(other["error"])
    stray = asked(capfd, "agent", tmp_path / "b", *where, "--seed", "http://127.0.0.1:8/", expect=2)
    assert "is no seed of this crawl" in str(stray["error"])
    assert not (tmp_path / "b").exists()
    alone = asked(capfd, "resume", tmp_path / "a", expect=2)
    assert "is an agent of a cluster" in str(alone["error"])
    # A finished crawl may be kept fresh from now on.
    fresh = ("--set", "refresh.on=true", "--set", "refresh.budget=1/s", "--time", "1s")
    assert asked(capfd, "agent", tmp_path / "c", *where, *fresh, expect=3)["stopped_by"] == "time"
    # Settings of a machine are given per agent, and joining a finished crawl succeeds.
    asked(capfd, "agent", tmp_path / "b", *where, "--set", "fetch.concurrency=7")


def test_agents_crawl_on_two_servers_of_which_one_is_killed(
    server: ServerProcess, other_server: ServerProcess, tmp_path: Path, capfd: Said
) -> None:
    both = ("--coordinator", server.url, "--coordinator", other_server.url, "--crawl", "spread")
    turned = ("--coordinator", other_server.url, "--coordinator", server.url, "--crawl", "spread")
    with running_meadow(hosts=12, pages=120, seed=4, page_kb=1.0) as meadow:
        seeds = [word for seed in meadow.seeds for word in ("--seed", seed)]
        manners = ("--scope", "web", "--delay", "100ms", "--allow-private", "--json")
        agents = [crawling.start("agent", tmp_path / "a", *both, *seeds, *manners)]
        agents.append(crawling.start("agent", tmp_path / "b", *turned, "--allow-private", "--json"))
        until(lambda: server.client().hget("fm:{spread}:meta", "settled") not in (None, b"0"))
        until(lambda: other_server.client().hget("fm:{spread}:meta", "settled") not in (None, b"0"))
        other_server.kill()
        other_server.start()
        told = [json.loads(process.communicate(timeout=300)[0]) for process in agents]
        assert [process.returncode for process in agents] == [0, 0]
        crawling.run("crawl", tmp_path / "alone", *seeds, *manners)
    stored = {row["url"] for name in "ab" for row in crawling.exported(tmp_path / name)}
    assert stored == {row["url"] for row in crawling.exported(tmp_path / "alone")}
    status = asked(capfd, "cluster", "status", *turned)
    assert (status["done"], status["waiting"]) == (True, 0)
    assert status["seen"] == status["booked"] == told[0]["whole"]["seen"]
    parts = [int(each.client().hget("fm:{spread}:meta", "seen")) for each in (server, other_server)]
    assert sum(parts) == status["seen"]
    assert min(parts) > 0

    # The first agent has acknowledged something, however late the other came.
    lost = json.loads((tmp_path / "a" / "agent.json").read_text())["agent"]
    few = asked(capfd, "cluster", "forget", lost, "--coordinator", server.url, "--crawl", "spread", expect=2)
    assert "lies on 2 servers" in str(few["error"])
    late = asked(capfd, "agent", tmp_path / "c", "--coordinator", server.url, "--crawl", "spread", expect=2)
    assert "lies on 2 servers" in str(late["error"])
    again = asked(capfd, "cluster", "forget", lost, "--again", *both)["again"]
    assert asked(capfd, "cluster", "status", *both)["waiting"] == again > 0


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, "it never came to it"
        time.sleep(0.05)


@needs_server
def test_a_known_agent_waits_for_its_coordinator_and_a_new_one_gives_up_soon(tmp_path: Path, capfd: Said) -> None:
    with a_server() as server:
        where = ("--coordinator", server.url)
        seed = ("--seed", "http://127.0.0.1:9/")
        asked(capfd, "agent", tmp_path / "a", *where, *seed, "--delay", "1s", expect=1)  # no page
        server.kill()
        command, pipe = crawling.command("agent", tmp_path / "a", *where), subprocess.PIPE
        waiting = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=pipe, text=True)
        try:
            assert waiting.stderr is not None
            assert "does not answer; waiting for it" in waiting.stderr.readline()
            strange = asked(capfd, "agent", tmp_path / "b", *where, expect=1)
            assert "does not answer" in str(strange["error"])
            assert waiting.poll() is None
            server.start()
            assert waiting.wait(120) == 1
        finally:
            crawling.end(waiting)


@pytest.mark.parametrize("missing", ["crawl.json", "journal"])
def test_a_directory_of_an_agent_killed_during_creation_is_still_an_agents(
    server: ServerProcess, tmp_path: Path, missing: str
) -> None:
    words: dict[str, object] = {"allow_private": True}
    where = ([server.url], f"made-{missing}")
    plan = agent_preparation.plan_agent(tmp_path / "a", *where, words, {}, ["http://127.0.0.1:9/"])
    plan.open_and_lock().unlock()
    (tmp_path / "a" / missing).unlink(missing_ok=True)
    again = agent_preparation.plan_agent(tmp_path / "a", *where, {}, {})
    assert again.new == (missing == "crawl.json")
    again.open_and_lock().unlock()
    assert is_agent_directory(tmp_path / "a")


def test_a_resumed_agent_uses_the_settings_of_its_machine(server: ServerProcess, tmp_path: Path) -> None:
    """Without the names it would find no host, and hosts would rest for all agents."""
    where, home = ([server.url], "kept"), tmp_path / "a"
    words: dict[str, object] = {"resolve": ("a.test=127.0.0.9",), "concurrency": "3", "pages": "70"}
    first = agent_preparation.plan_agent(home, *where, words, {"storage.checkpoint": "1s"}, ["http://a.test/"])
    first.open_and_lock().unlock()
    again = agent_preparation.plan_agent(home, *where, {}, {}).settings
    assert again.network.resolve == ("a.test=127.0.0.9",)
    assert (again.fetch.concurrency, again.storage.checkpoint) == (3, 1.0)
    said = agent_preparation.plan_agent(home, *where, {"concurrency": "5"}, {}).settings
    assert (said.fetch.concurrency, said.storage.checkpoint) == (5, 1.0)
    other = tmp_path / "other.toml"
    other.write_text("[fetch]\nconcurrency = 7\n")
    instead = agent_preparation.plan_agent(home, *where, {}, {}, config=other).settings
    assert (instead.fetch.concurrency, instead.network.resolve) == (7, ())
    # Settings of the crawl come from the coordinator, whatever the file of one agent says. Delays may be
    # longer.
    file = home / "fieldmouse.toml"
    text = file.read_text()
    for delay, kept in (("9s", 9.0), ("10ms", 1.0)):
        edited = text.replace("pages = 70", "pages = 9").replace('delay = "1s"', f'delay = "{delay}"')
        file.write_text(edited.replace('lease = "15s"', 'lease = "99s"'))
        strange = agent_preparation.plan_agent(home, *where, {}, {}).settings
        assert (strange.crawl.pages, strange.politeness.delay, strange.cluster.lease) == (70, kept, 15.0)


def test_an_agent_of_another_crawl_is_not_told_that_the_coordinator_was_lost(
    server: ServerProcess, tmp_path: Path
) -> None:
    words: dict[str, object] = {"allow_private": True}
    where = ([server.url], "news")
    agent_preparation.plan_agent(tmp_path / "a", *where, words, {}, ["http://127.0.0.1:9/"]).open_and_lock().unlock()
    begin_start(tmp_path / "a", "news")
    with pytest.raises(UsageError, match="belongs to the crawl `news`, not to `nwes`") as wrong:
        agent_preparation.plan_agent(tmp_path / "a", [server.url], "nwes", {}, {})
    assert "`--crawl news`" in wrong.value.hint
    server.client().flushall()
    with pytest.raises(CoordinatorDataLost):
        agent_preparation.plan_agent(tmp_path / "a", *where, {}, {})


def test_a_single_machine_crawl_can_start_where_an_agent_was_killed_before_it_joined(tmp_path: Path) -> None:
    (tmp_path / "agent.json").write_bytes(UNJOINED_IDENTITY)
    CrawlDir.create(tmp_path, shards=1, settings=b"")
    assert not is_agent_directory(tmp_path)


def test_a_lost_coordinator_is_rebuilt_from_the_agents_directories(
    server: ServerProcess, tmp_path: Path, capfd: Said
) -> None:
    """The server is emptied in the middle of a crawl of three agents; the rebuild is killed once."""
    where, names = ("--coordinator", server.url, "--crawl", "lost"), "abc"
    homes = [tmp_path / name for name in names]
    client, meta, hidden = server.client(), "fm:{lost}:meta", "fm:{lost}:hidden"
    with running_meadow(hosts=8, pages=240, seed=9, page_kb=1.0, sitemaps=0.6, sitemap_only=0.2) as meadow:
        first = [word for seed in meadow.seeds for word in ("--seed", seed)]
        first += ["--scope", "web", "--delay", "100ms"]
        first += ["--set", "cluster.lease=2s", "--set", "cluster.heartbeat=500ms"]
        own = ("--set", "storage.checkpoint=500ms", "--allow-private", "--json")
        agents = [
            crawling.start("agent", home, *where, *(() if number else first), *own) for number, home in enumerate(homes)
        ]
        wait_for(lambda: int(client.hget(meta, "settled") or 0) >= 60, agents)
        client.flushall()
        for agent in agents:
            told = json.loads(agent.communicate(timeout=120)[0])
            assert agent.returncode == 1
            assert told["error"] == "the coordinator has lost the crawl `lost`: its server has no data of it"
            assert "fieldmouse cluster rebuild" in told["hint"]
        stored = [row["url"] for home in homes for row in crawling.exported(home)]
        assert 0 < len(stored) < len(meadow.pages())

        killed = crawling.start("cluster", "rebuild", *homes, *where)
        wait_for(lambda: client.exists(hidden), [])
        crawling.end(killed)
        if not client.exists(meta):  # the kill came before its end
            begun = asked(capfd, "agent", tmp_path / "new", *where, *first, expect=1)
            assert "is being rebuilt" in str(begun["error"])
            assert not (tmp_path / "new").exists()
            made = asked(capfd, "cluster", "rebuild", *homes, *where)
            assert made["seen"] == made["booked"] + made["waiting"]
            assert made["booked"] >= len(stored)
            assert made["unreadable"] == 0
        again = asked(capfd, "cluster", "rebuild", *homes, *where, expect=1)
        assert again["error"] == "the coordinator has a crawl `lost`, and it is not empty"
        assert not client.exists(hidden)

        agents = [crawling.start("agent", home, *where, *own) for home in homes]
        told = [json.loads(agent.communicate(timeout=300)[0]) for agent in agents]
        assert [agent.returncode for agent in agents] == [0, 0, 0], told
        truth = meadow.pages()
    stored = [row["url"] for home in homes for row in crawling.exported(home)]
    assert sorted(stored) == sorted(truth)
    status = asked(capfd, "cluster", "status", *where)
    assert status["seen"] == status["booked"]
    audit_of_server(client, "fm:{lost}:").check()


def test_a_rebuild_refuses_directories_of_different_crawls(server: ServerProcess, tmp_path: Path, capfd: Said) -> None:
    where = ("--coordinator", server.url, "--crawl", "mixed")
    for name, crawl in (("a", "mixed"), ("b", "else"), ("alone", "")):
        CrawlDir.create(tmp_path / name, shards=1, settings=render(Settings()).encode(), key_seed=1)
        if crawl:
            begin_start(tmp_path / name, crawl)

    def refused(*homes: str) -> str:
        words = ("cluster", "rebuild", *(tmp_path / home for home in homes), *where)
        return str(asked(capfd, *words, expect=2)["error"])

    assert "is not an agent of a cluster" in refused("alone")
    assert "belongs to the crawl `else`" in refused("a", "b")
    assert "named twice" in refused("a", "b/../a")
    toml = tmp_path / "copy" / "fieldmouse.toml"
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    toml.write_text(toml.read_text().replace('mode = "site"', 'mode = "web"'))
    assert '`scope.mode` is "site"' in refused("a", "copy")
    stranger = tmp_path / "stranger"
    CrawlDir.create(stranger, shards=1, settings=render(Settings()).encode(), key_seed=2)
    begin_start(stranger, "mixed")
    assert "agents of different crawls" in refused("a", "stranger")


def wait_for(is_so: Callable[[], object], agents: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert all(agent.poll() is None for agent in agents), "an agent ended"
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_agent_that_waits_for_a_crawl_stops_cleanly_on_a_signal(
    server: ServerProcess, tmp_path: Path, number: signal.Signals
) -> None:
    command = crawling.command("agent", tmp_path / "a", "--coordinator", server.url, "--crawl", "not-yet")
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    waiting = subprocess.Popen(command, **streams, text=True, start_new_session=True)
    try:
        assert waiting.stderr is not None
        assert "waiting for a crawl `not-yet` to appear" in waiting.stderr.readline()
        waiting.send_signal(number)
        assert waiting.wait(60) == 130
        assert "Traceback" not in waiting.stderr.read()
    finally:
        crawling.end(waiting)


@needs_server
def test_the_error_for_an_unknown_crawl_lists_the_existing_ones(tmp_path: Path, capfd: Said) -> None:
    with a_server() as server:
        where = ("--coordinator", server.url)
        none = asked(capfd, "cluster", "status", *where, expect=1)
        assert none["hint"] == "it has none yet: begin one with `fieldmouse agent`"
        assert not asked(capfd, "cluster", "list", *where)
        for name in ("news", "wikis"):
            plan = agent_preparation.plan_agent(tmp_path / name, [server.url], name, {}, {}, ["http://127.0.0.1:9/"])
            plan.open_and_lock().unlock()
        wrong = asked(capfd, "cluster", "drain", "ada", *where, "--crawl", "nwes", expect=1)
        assert wrong["error"] == "the coordinator knows no crawl `nwes`"
        assert wrong["hint"] == "it has `news` and `wikis`: name one with --crawl"
        assert list(asked(capfd, "cluster", "list", *where)) == ["news", "wikis"]
        command = crawling.command("agent", tmp_path / "b", *where, "--crawl", "nwes")
        waiting = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            assert waiting.stderr is not None
            assert "to appear on the coordinator, which has `news` and `wikis`" in waiting.stderr.readline()
        finally:
            crawling.end(waiting)


def test_an_unused_crawl_is_removed_and_its_name_is_free(
    server: ServerProcess, other_server: ServerProcess, tmp_path: Path, capfd: Said
) -> None:
    both = ("--coordinator", server.url, "--coordinator", other_server.url)
    before = {each: set(each.client().keys("*:meta")) for each in (server, other_server)}
    seed = ("--seed", "http://127.0.0.1:9/")
    asked(capfd, "agent", tmp_path / "a", *both, "--crawl", "stray", *seed, expect=1)
    unknown = asked(capfd, "cluster", "remove", "strays", *both, expect=1)
    assert "`stray`" in str(unknown["hint"])

    async def join(name: AgentId, *, leave: bool) -> None:
        board = open_coordinator([server.url, other_server.url], "stray")
        await (board.leave(name) if leave else board.join(name, 30.0))
        await board.close()

    asyncio.run(join(AgentId("ada", 1), leave=False))
    busy = asked(capfd, "cluster", "remove", "stray", *both, expect=2)
    assert "`ada` crawls in `stray`" in str(busy["error"])
    asyncio.run(join(AgentId("ada", 1), leave=True))
    removed = {"crawl": "stray", "seen": 1, "booked": 1, "waiting": 0}
    assert asked(capfd, "cluster", "remove", "stray", *both) == removed
    for each, others in before.items():
        assert not each.client().keys("fm:{stray}:*")
        assert set(each.client().keys("*:meta")) == others, "crawls beside it are not touched"
    # The name is free, and the old agent is told that its crawl is gone.
    gone = asked(capfd, "agent", tmp_path / "a", *both, "--crawl", "stray", expect=1)
    assert "stray" in str(gone["error"])
    asked(capfd, "agent", tmp_path / "b", *both, "--crawl", "stray", *seed, expect=1)


@needs_server
def test_one_url_is_reported_in_the_singular(tmp_path: Path, capfd: Said) -> None:
    with a_server() as server:
        where = ("--coordinator", server.url)
        asked(capfd, "agent", tmp_path / "a", *where, "--seed", "http://127.0.0.1:9/", expect=1)
        assert main.run_command(["cluster", "status", *where]) == 0
        assert "fieldmouse: 0 pages, 1 host; 1 URL seen, 1 acknowledged, done;" in capfd.readouterr().out
        server.client().flushall()
        assert main.run_command(["cluster", "rebuild", str(tmp_path / "a"), *where]) == 0
        told = capfd.readouterr().err
        assert "has outcomes of 1 URL that no other has" in told
        assert "rebuilt `fieldmouse`: 1 URL seen, 1 acknowledged, 0 waiting" in told
