"""Time from which nothing can join the scope of a crawl."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from fieldmouse.crawler.growing_scope import CrawlScope
from fieldmouse.policy.scope import Scope, SharedScopeAdditions
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.types.request import Request
from fieldmouse.url import Url

SEEDS = [Url("http://a.test/"), Url("http://b.a.test/")]
END = Url("https://www.a.test/")


def moved(url: str, target: str, depth: int = 0) -> bytes:
    return msgspec.msgpack.encode(OutcomeRow(Url(url), OutcomeKind.MOVED, 1.0, depth=depth, target=target))


def page(url: str, depth: int = 0) -> bytes:
    return msgspec.msgpack.encode(OutcomeRow(Url(url), OutcomeKind.PAGE, 1.0, depth=depth))


CHAIN = [moved(SEEDS[0], "https://a.test/"), moved("https://a.test/", END), moved(SEEDS[1], END), page(END)]


@pytest.fixture
def scope(tmp_path: Path) -> CrawlScope:
    home = CrawlDir.create(tmp_path / "c", shards=1, settings=b"")
    return CrawlScope(Scope.from_seeds(SEEDS, "host"), SEEDS, home, None, shared=None)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_a_scope_is_open_until_every_seed_redirect_is_resolved(
    scope: CrawlScope, order: tuple[int, ...], at_once: int
) -> None:
    rows = [CHAIN[place] for place in order]
    for start in range(0, len(rows), at_once):
        assert scope.may_grow
        scope.update_unsettled_seeds(rows[start : start + at_once])
    assert not scope.may_grow


def test_redirect_cycles_and_redirects_out_of_scope_close_the_scope(scope: CrawlScope) -> None:
    scope.update_unsettled_seeds([moved(SEEDS[0], SEEDS[1]), moved(SEEDS[1], SEEDS[0])])
    assert not scope.may_grow


def test_a_redirect_out_of_scope_ends_the_chain(scope: CrawlScope) -> None:
    scope.update_unsettled_seeds([moved(SEEDS[0], "http://far.test/"), page("http://a.test/x", depth=1)])
    assert scope.may_grow
    scope.update_unsettled_seeds([page(SEEDS[1])])
    assert not scope.may_grow


def test_links_to_a_host_added_by_another_agent_are_followed(tmp_path: Path) -> None:
    shared = SharedScopeAdditions()
    home = CrawlDir.create(tmp_path / "c", shards=1, settings=b"")
    scope = CrawlScope(Scope.from_seeds(SEEDS, "host"), SEEDS, home, None, shared=shared)
    links = [Request(Url(f"{END}{number}"), depth=2) for number in range(3)]
    assert scope.filter_links(links) == []
    assert scope.apply_shared_additions() == []
    shared.receive([END, Url("http://far.test/")])
    assert scope.apply_shared_additions() == links
    assert scope.apply_shared_additions() == []
    assert scope.filter_links(links) == links
    assert not scope.scope.admits(Url("http://far.test/")), "another agent cannot add any domain it likes"
    news = scope.take_changes_for_workers()
    assert news is not None
    assert news.added == (END,), "the workers hear of it"
    assert END in scope.seal().state.joined, "it is durable"


def test_additions_are_published_once_and_again_after_a_restart() -> None:
    shared = SharedScopeAdditions()
    shared.publish([END, END])
    assert shared.unpublished == [END]
    shared.mark_published([END])
    shared.publish([END])
    assert shared.unpublished == []
    shared.receive([END, SEEDS[0]])
    assert shared.take_received() == [SEEDS[0]]
    assert len(shared) == 2
    shared.publish_again()
    assert shared.unpublished == [END, SEEDS[0]]
    assert len(shared) == 0
