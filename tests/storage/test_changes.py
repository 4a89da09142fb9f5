"""What rows of the outcome log tell people: a fold that anybody can leave and take up again."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.storage.changes_from_outcomes import ChangeKind, NewPageBaseline, change_id, changes_in, sealed_baseline
from fieldmouse.storage.checkpoint import Checkpoint, make_part_state
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url

HERE = Url("http://example.org/")
BASELINE = 100.0
KNOWN = NewPageBaseline(BASELINE)

rows = st.builds(
    OutcomeRow,
    st.sampled_from([HERE, Url("http://example.org/other")]),
    st.sampled_from([OutcomeKind.PAGE, OutcomeKind.FAILED, OutcomeKind.MOVED, OutcomeKind.UNCHANGED]),
    st.floats(0.0, 200.0),
    seen_at=st.sampled_from([50.0, BASELINE, 150.0]),
    polled=st.sampled_from(["", "page", "failed", "moved"]),
    news=st.sampled_from(ContentChange),
    found_as=st.sampled_from(["page", "seed", "sitemap", "feed"]),
    withdrawn_at=st.lists(st.floats(0.0, 200.0), max_size=2, unique=True).map(tuple),
)


def kinds(row: OutcomeRow, baseline: NewPageBaseline | None = KNOWN) -> list[str]:
    return [change.kind.value for change in changes_in(row, 0, baseline)]


@given(rows)
def test_unchanged_and_noisy_pages_are_never_listed(row: OutcomeRow) -> None:
    told = kinds(row)
    if row.polled and row.news in (ContentChange.NONE, ContentChange.SAME, ContentChange.NOISE):
        assert set(told) <= {"withdrawn"}
    assert all(row.found_as in ("page", "seed") for _ in told), "sitemaps and feeds are no pages"


@given(rows)
def test_nothing_is_new_before_there_is_a_baseline(row: OutcomeRow) -> None:
    assert "new" not in kinds(row, None)
    assert [kind for kind in kinds(row) if kind != "new"] == kinds(row, None)


@pytest.mark.parametrize(
    ("polled", "news", "seen_at", "at", "kind"),
    [
        ("", ContentChange.NONE, 150.0, 160.0, ["new"]),
        ("", ContentChange.NONE, 100.0, 160.0, []),  # seen in the first crawl, fetched after it
        ("page", ContentChange.CHANGED, 50.0, 160.0, ["changed"]),
        ("page", ContentChange.CHANGED, 50.0, 60.0, ["changed"]),  # polls may begin before the baseline
        ("failed", ContentChange.CHANGED, 50.0, 160.0, ["new"]),  # it was gone, and is back
        ("failed", ContentChange.CHANGED, 50.0, 60.0, []),
        ("moved", ContentChange.CHANGED, 50.0, 160.0, ["new"]),
    ],
)
def test_the_kind_follows_from_what_stood_before(
    polled: str, news: ContentChange, seen_at: float, at: float, kind: list[str]
) -> None:
    row = OutcomeRow(HERE, OutcomeKind.PAGE, at, seen_at=seen_at, polled=polled, news=news)
    assert kinds(row) == kind


def test_a_withdrawal_names_the_change_it_takes_back() -> None:
    first = OutcomeRow(HERE, OutcomeKind.PAGE, 120.0, polled="page", news=ContentChange.CHANGED)
    later = OutcomeRow(HERE, OutcomeKind.PAGE, 140.0, polled="page", news=ContentChange.CHANGED, withdrawn_at=(120.0,))
    assert later.withdrawn_change_count == 1
    (told,) = changes_in(first, 0, KNOWN)
    withdrawal, change = changes_in(later, 0, KNOWN)
    assert (withdrawal.kind, withdrawal.withdraws) == (ChangeKind.WITHDRAWN, told.id)
    assert change.kind is ChangeKind.CHANGED
    assert len({told.id, withdrawal.id, change.id}) == 3


def test_ids_are_of_url_kind_and_time_and_of_nothing_else() -> None:
    row = OutcomeRow(HERE, OutcomeKind.PAGE, 120.0, polled="page", news=ContentChange.CHANGED, title="one")
    (told,) = changes_in(row, 0, KNOWN)
    (again,) = changes_in(msgspec.structs.replace(row, title="two"), 0, None)
    assert told.id == again.id == change_id(HERE, ChangeKind.CHANGED, 120.0)


def test_the_baseline_is_read_from_the_part_refresh_whatever_else_it_holds() -> None:
    def checkpoint(**parts: object) -> Checkpoint:
        return Checkpoint(1.0, {name: make_part_state(state, {}) for name, state in parts.items()})

    assert sealed_baseline(None) is sealed_baseline(checkpoint()) is None
    assert sealed_baseline(checkpoint(refresh=NewPageBaseline())) is None
    assert sealed_baseline(checkpoint(refresh={"baseline": 7.5, "more": [1]})) == NewPageBaseline(7.5)
