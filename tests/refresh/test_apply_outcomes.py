"""The ledger is a fold: it holds what a slow and plain reader of the same log would hold."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.policy import change_rate
from fieldmouse.refresh.apply_outcomes import PageFlag
from fieldmouse.refresh.last_modified import RELIABLE_WEIGHT
from fieldmouse.refresh.page_table import read_page_table
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.url import host_of

from .chronicle import Chronicle, Remembering, page, state_of, url

MEANINGS = {
    "page": {"kind": OutcomeKind.PAGE, "status": 200},
    "unchanged": {"kind": OutcomeKind.UNCHANGED, "status": 304},
    "gone": {"kind": OutcomeKind.FAILED, "status": 404, "reason": OutcomeReason.CLIENT_ERROR},
    "moved": {"kind": OutcomeKind.MOVED, "status": 301},
    "elsewhere": {"kind": OutcomeKind.MOVED, "status": 302},
    "failed": {"kind": OutcomeKind.FAILED, "reason": OutcomeReason.TIMEOUT},
    "broken": {"kind": OutcomeKind.FAILED, "status": 503, "reason": OutcomeReason.SERVER_ERROR},
    "refused": {"kind": OutcomeKind.REFUSED, "reason": OutcomeReason.PRIVATE_ADDRESS},
    "excluded": {"kind": OutcomeKind.REFUSED, "reason": OutcomeReason.ROBOTS_TXT_EXCLUDED},
    "forgiven": {"kind": OutcomeKind.WITHDRAWN},
}


class Plain:
    """The same ledger in plain dicts, one row after another."""

    def __init__(self) -> None:
        self.pages: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, list[int]] = {}
        self.policy = Remembering()

    def take(self, row: OutcomeRow) -> None:
        known = self.pages.get(row.url)
        entering = known is None
        # A page that moved counts when what it moved to is stored, which its row says by what is news.
        for_good = row.status == 301 and row.supersedes_earlier
        enters = row.kind in (OutcomeKind.PAGE, OutcomeKind.FAILED, OutcomeKind.REFUSED) or for_good
        if row.kind is OutcomeKind.WITHDRAWN:
            if known and known["what"] in ("failed", "refused"):
                known["absent"] = True
            return
        if known is None:
            if not enters:
                return
            known = self.pages[row.url] = {
                "looked": 0.0,
                "changed": 0.0,
                "polls": 0,
                "changes": 0,
                "excluded": False,
                "absent": False,
                "belief": change_rate.empty_beliefs(1),
                "dated": change_rate.empty_beliefs(1),
                "state": self.policy.initial_state(1),
            }
        elsewhere = row.kind is OutcomeKind.MOVED and not for_good
        stands = entering or (row.supersedes_earlier and not elsewhere and row.kind is not OutcomeKind.UNCHANGED)
        look = row.is_gone or (
            elsewhere is False and row.kind in (OutcomeKind.PAGE, OutcomeKind.MOVED, OutcomeKind.UNCHANGED)
        )
        known["polls"] += bool(row.polled) and row.kind is not OutcomeKind.REFUSED
        known["tried"] = row.at
        if row.withdrawn_change_count:
            known["belief"], known["dated"] = change_rate.empty_beliefs(1), change_rate.empty_beliefs(1)
            known["state"] = self.policy.initial_state(1)
            known["changes"] = max(0, known["changes"] - row.withdrawn_change_count)
        what = (
            "gone"
            if row.is_gone
            else "moved"
            if row.kind is OutcomeKind.MOVED
            else "page"
            if row.kind in (OutcomeKind.PAGE, OutcomeKind.UNCHANGED)
            else str(row.kind)
        )
        if row.polled and look and known["looked"]:
            gap = row.at - known["looked"]
            changed = self.is_changed(row, known, what)
            known["state"] = self.policy.observe(known["state"], known["belief"], [gap], [changed])
            known["belief"] = change_rate.update_beliefs(known["belief"], [gap], [changed])
            age = self.age(row, known["looked"], changed)
            known["dated"] = change_rate.update_beliefs(known["dated"], [gap], [changed], [age])
            if changed:
                known["changes"] += 1
                known["changed"] = row.at
        date = parsedate_to_datetime(row.last_modified).timestamp() if row.last_modified else math.inf
        if look and not known["looked"] and date < row.at - 2.0:
            known["dated"] = change_rate.update_beliefs(known["dated"], [math.inf], [True], [row.at - date])
        if look:
            known["looked"] = row.at
        if stands:
            known |= {"what": what, "digest": row.digest, "absent": False, "excluded": False}
        if row.reason is OutcomeReason.ROBOTS_TXT_EXCLUDED:
            known["excluded"] = True
        elif look:
            known["excluded"] = False
        known["trouble"] = not look

    def age(self, row: OutcomeRow, looked: float, changed: bool) -> float:
        """How long ago the page changed, if its date says so and can be right; its host is held to it."""
        if not row.last_modified:
            return math.nan
        at, gap = parsedate_to_datetime(row.last_modified).timestamp(), row.at - looked
        skew = min(60.0, gap / 2)
        claims = self.claims.setdefault(host_of(row.url), [0, 0])
        if not changed:
            claims[1] += at > looked + skew
        elif at <= looked - skew:
            claims[1] += 1
        elif at <= row.at - min(max(2.0, gap / 100), 120.0):
            claims[0] += 1
            return min(row.at - at, gap)
        return math.nan

    @staticmethod
    def is_changed(row: OutcomeRow, known: dict[str, Any], what: str) -> bool:
        if what in ("gone", "moved") and known["what"] == what:
            return False
        if row.news is not ContentChange.NONE:
            return row.news in (ContentChange.CHANGED, ContentChange.GONE, ContentChange.MOVED)
        if row.kind is OutcomeKind.UNCHANGED:
            return False
        return known["what"] != "page" or row.kind is not OutcomeKind.PAGE or row.digest != known["digest"]


def check_same(chronicle: Chronicle, rows: Iterable[OutcomeRow]) -> None:
    plain, ledger = Plain(), chronicle.ledger
    for row in rows:
        plain.take(row)
    assert len(ledger) == len(plain.pages)
    for name, known in plain.pages.items():
        number = ledger.find_row(name)
        assert number is not None
        told = {column.name: ledger.column(column.name)[number] for column in ledger.pages.fields}
        flags = PageFlag(int(told["flags"]))
        for column in ("looked", "tried", "changed", "polls", "changes"):
            assert told[column] == known[column], (name, column)
        assert told["belief"].tolist() == known["belief"][0].tolist()
        assert told["dated"].tolist() == known["dated"][0].tolist()
        right, wrong = plain.claims.get(host_of(name), (0, 0))
        believed = change_rate.ClaimReliability(right, wrong).probability_right() >= RELIABLE_WEIGHT
        (chosen,) = ledger.change_rate_beliefs(np.array([number])).tolist()
        assert chosen == told["dated" if believed else "belief"].tolist()
        assert told["state"].tolist() == known["state"][0].tolist()
        standing = {
            "gone": PageFlag.GONE,
            "moved": PageFlag.MOVED,
            "failed": PageFlag.FAILED,
            "refused": PageFlag.REFUSED,
        }
        for what, flag in standing.items():
            assert (flag in flags) == (known["what"] == what), (name, flags, known)
        assert (PageFlag.EXCLUDED in flags) == known["excluded"]
        assert (PageFlag.ABSENT in flags) == known["absent"]
        assert (PageFlag.TROUBLE in flags) == known["trouble"]
        assert ledger.read_logged_outcome(int(told["standing"])).url == name


@st.composite
def histories(draw: st.DrawFn) -> list[OutcomeRow]:
    rows, at = [], 100.0
    for _ in range(draw(st.integers(1, 25))):
        at += draw(st.sampled_from([0.5, 3.0, 1000.0]))
        what = draw(st.sampled_from(sorted(MEANINGS)))
        polled = draw(st.sampled_from(["", "page", "failed"])) if what != "forgiven" else ""
        news = draw(st.sampled_from(list(ContentChange))) if polled and what == "page" else ContentChange.NONE
        date = ""
        if what in ("page", "unchanged") and draw(st.booleans()):
            date = formatdate(at - draw(st.sampled_from([0, 1, 2, 200, 900, 5000, -100])), usegmt=True)
        rows.append(
            OutcomeRow(
                url(draw(st.integers(0, 3)), draw(st.integers(0, 1))),
                at=at,
                polled=polled,
                news=news,
                last_modified=date,
                digest=draw(st.sampled_from(["sha1:A", "sha1:B"])),
                withdrawn_at=(1.0,) * draw(st.integers(0, 2)) if news is ContentChange.NOISE else (),
                **MEANINGS[what],  # type: ignore[arg-type]
            )
        )
    return rows


@settings(max_examples=80)
@given(histories(), st.lists(st.integers(0, 25), max_size=3), st.booleans())
def test_the_page_table_agrees_with_a_plain_reader(rows: list[OutcomeRow], ends: list[int], killed: bool) -> None:
    """Wherever one batch ends and the next begins, and whatever was killed in between."""
    with tempfile.TemporaryDirectory() as directory:
        chronicle = Chronicle(Path(directory) / "c")
        start = 0
        for end in [*sorted(end for end in ends if end < len(rows)), len(rows)]:
            chronicle.settle(rows[start:end])
            start = end
            if killed:
                chronicle.reopen()
                chronicle.ledger.catch_up(chronicle.outcomes.length)
        check_same(chronicle, rows)
        onlooker = read_page_table(chronicle.home, chronicle.newest, policy=chronicle.policy)
        assert state_of(onlooker) == state_of(chronicle.ledger)
        onlooker.close()
        chronicle.close()


def test_catching_up_twice_changes_nothing(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c")
    chronicle.settle([page(1), page(2), page(1, 200.0, polled="page", news=ContentChange.CHANGED)])
    before = state_of(chronicle.ledger)
    assert chronicle.ledger.catch_up(chronicle.outcomes.length) == 0
    assert state_of(chronicle.ledger) == before
    assert before["changes"] != [0, 0], "something was learned"


def test_sitemaps_and_feeds_are_signals_and_no_pages(tmp_path: Path) -> None:
    chronicle = Chronicle(tmp_path / "c")
    chronicle.settle([page(1), page(2, found_as="sitemap"), page(3, found_as="feed"), page(4, found_as="seed")])
    flags = chronicle.ledger.column("flags")
    assert [bool(flags[number] & PageFlag.SIGNAL) for number in range(4)] == [False, True, True, False]
    assert len(chronicle.ledger) == 4


@pytest.mark.parametrize("count", [3, 20_000])
def test_pages_know_their_host(tmp_path: Path, count: int) -> None:
    chronicle = Chronicle(tmp_path / "c")
    chronicle.settle(page(number, host=number % 3) for number in range(count))
    assert len(chronicle.ledger.hosts) == 3
    assert chronicle.ledger.column("host").tolist() == (np.arange(count) % 3).tolist()
    assert [chronicle.ledger.find_row(url(n, n % 3)) for n in (0, 1, count - 1)] == [0, 1, count - 1]
    assert chronicle.ledger.find_row(url(count, 1)) is None
