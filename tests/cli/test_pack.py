"""`fieldmouse pack` on a crawl whose pages are polled: what it says, what it keeps, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from fieldmouse.cli.main import run_command
from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.policy.polling.policies import UniformPolicy
from fieldmouse.policy.site_packing.plan import PackingPlan
from fieldmouse.reader.crawl_reader import CrawlReader
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url
from refresh.chronicle import Chronicle

Said = pytest.CaptureFixture[str]

SITES = {"a.example": 60, "b.example": 50, "c.example": 30, "d.example": 10}
BUDGET = 300.0  # polls an hour, of all: two for each page


def row(site: str, number: int) -> OutcomeRow:
    host = f"www{number % 2}.{site}"  # two hosts a site
    url, digest = Url(f"http://{host}/{number}"), f"sha1:{site}{number}"
    return OutcomeRow(url, OutcomeKind.PAGE, 100.0, digest=digest, status=200, seen_at=100.0)


@pytest.fixture
def atlas(tmp_path: Path) -> Path:
    """150 pages of four sites, each of which gets two polls an hour."""
    path = tmp_path / "atlas"
    chronicle = Chronicle(path, UniformPolicy(), "uniform")
    (path / "fieldmouse.toml").write_text(settings_file.render(Settings().override({"politeness.delay": "0s"})))
    chronicle.ledger.budget = BUDGET / 3600
    chronicle.settle([row(site, number) for site, pages in SITES.items() for number in range(pages)])
    chronicle.checkpoint()
    chronicle.close()
    return path


def test_sites_of_several_agents_are_packed_as_one(atlas: Path, tmp_path: Path, capsys: Said) -> None:
    alone = packed(atlas, capsys, "--capacity", "160")
    agents = []
    for part in range(2):  # pages of every host are in both
        chronicle = Chronicle(tmp_path / f"agent{part}", UniformPolicy(), "uniform")
        (chronicle.path / "fieldmouse.toml").write_bytes((atlas / "fieldmouse.toml").read_bytes())
        chronicle.ledger.budget = BUDGET / 3600 / 2
        pages = [row(site, number) for site, pages in SITES.items() for number in range(pages)]
        chronicle.settle([one for place, one in enumerate(pages) if place // 2 % 2 == part])
        chronicle.checkpoint()
        chronicle.close()
        agents.append(chronicle.path)
    together = packed(agents[0], capsys, "--with", str(agents[1]), "--capacity", "160")
    assert shares(together) == shares(alone)
    assert (agents[0] / "pack.json").exists()
    again = packed(agents[0], capsys, "--with", str(agents[1]), "--capacity", "160")
    assert again["moved"] == []


def shares(told: dict[str, object]) -> dict[str, tuple[int, float]]:
    plan = msgspec.convert(told, PackingPlan)
    return {
        share.site: (share.pages, pytest.approx(share.polls, rel=1e-3)) for node in plan.nodes for share in node.sites
    }


def packed(atlas: Path, said: Said, *words: str) -> dict[str, object]:
    assert run_command(["pack", str(atlas), *words, "--json"]) == 0
    told: dict[str, object] = json.loads(said.readouterr().out)
    return told


def test_site_weight_is_sum_of_planned_polls(atlas: Path, capsys: Said) -> None:
    told = packed(atlas, capsys, "--capacity", "160")
    plan = msgspec.convert(told, PackingPlan)
    shares = {share.site: share for node in plan.nodes for share in node.sites}
    assert {site: share.pages for site, share in shares.items()} == SITES
    for site, pages in SITES.items():
        assert shares[site].polls == pytest.approx(2 * pages, rel=1e-3)
    assert (len(plan.nodes), plan.at_least, plan.sites) == (2, 2, 4)
    assert plan.polls == pytest.approx(BUDGET, rel=1e-3)


def test_the_plan_is_kept_and_the_next_one_begins_with_it(atlas: Path, capsys: Said) -> None:
    first = packed(atlas, capsys, "--capacity", "160")
    assert json.loads((atlas / "pack.json").read_text()) == first
    again = packed(atlas, capsys, "--capacity", "160")
    assert (again["nodes"], again["moved"]) == (first["nodes"], [])
    less = msgspec.convert(packed(atlas, capsys, "--capacity", "140"), PackingPlan)
    before = {share["site"]: node["node"] for node in first["nodes"] for share in node["sites"]}  # type: ignore
    assert less.moved
    assert all(move.before == before[move.site] != move.after for move in less.moved)
    assert max(node.polls for node in less.nodes) <= 140


def test_a_plan_made_anew_looks_at_none_before_it(atlas: Path, capsys: Said) -> None:
    packed(atlas, capsys, "--capacity", "100")
    (atlas / "pack.json").write_text("{}")
    assert run_command(["pack", str(atlas), "--capacity", "160"]) == 1
    said = capsys.readouterr().err
    assert "pack.json` is no plan" in said
    assert "--anew" in said
    anew = packed(atlas, capsys, "--capacity", "160", "--anew")
    assert anew["moved"] == []


def test_people_are_told_how_many_nodes_and_which_sites(atlas: Path, capsys: Said) -> None:
    assert run_command(["pack", str(atlas), "--capacity", "110"]) == 0
    said = capsys.readouterr()
    assert "4 sites with 300 polls an hour need 4 nodes of 110 (the minimum)" in said.err
    assert "a.example needs 120, more than one node has: its 2 hosts are packed separately" in said.err
    head, *lines = said.out.splitlines()
    assert head.split() == ["node", "polls/h", "full", "sites"]
    assert any("http://www0.a.example" in line for line in lines)
    assert run_command(["pack", str(atlas), "--capacity", "55"]) == 0
    said = capsys.readouterr()
    assert "a.example needs 120, more than one node has: 2 of its 2 hosts are cut into 4 parts" in said.err
    assert "(2 of 2)" in said.out


def test_the_room_plans_and_keeps_nothing(atlas: Path) -> None:
    plan = CrawlReader(atlas).packing_plan(160)
    assert len(plan.nodes) == 2
    assert not (atlas / "pack.json").exists()


def test_a_crawl_that_was_never_polled_is_told_how_to(tmp_path: Path, capsys: Said) -> None:
    CrawlDir.create(tmp_path / "atlas", shards=1, settings=b"")
    assert run_command(["pack", str(tmp_path / "atlas"), "--capacity", "400"]) == 1
    said = capsys.readouterr().err
    assert "was ever polled" in said
    assert "fieldmouse refresh" in said
    assert not (tmp_path / "atlas" / "pack.json").exists()


@pytest.mark.parametrize("capacity", ["0", "-3", "many"])
def test_a_capacity_is_a_number_above_nothing(atlas: Path, capsys: Said, capacity: str) -> None:
    assert run_command(["pack", str(atlas), "--capacity", capacity]) == 2
