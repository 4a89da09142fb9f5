"""Poll history and next poll of a page in `explain`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.formatting import format_time
from fieldmouse.policy.polling.policies import UniformPolicy
from fieldmouse.reader.explain import POLLS_DESCRIBED, _describe_outcomes, describe_next_poll, next_poll
from fieldmouse.refresh.scheduler import RETRY_INTERVAL
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from refresh.chronicle import Chronicle, page, url

DAY = 86_400.0
CRAWLED = 1.7e9


def looks(*news: ContentChange) -> list[OutcomeRow]:
    """A page and one poll of it a day."""
    rows = [page(1, CRAWLED, warc="a.warc.gz", title="First")]
    for day, found in enumerate(news, 1):
        at = CRAWLED + day * DAY
        if found is ContentChange.SAME:
            rows.append(OutcomeRow(url(1), OutcomeKind.UNCHANGED, at, status=304, polled="page", news=found))
        else:
            warc = f"b-{day}.warc.gz"
            digest = f"sha1:{day}{day}"
            rows.append(page(1, at, polled="page", news=found, warc=warc, title=f"Day {day}", digest=digest))
    return rows


def test_polls_without_news_are_counted_and_the_others_described() -> None:
    said = list(
        _describe_outcomes(looks(ContentChange.SAME, ContentChange.CHANGED, ContentChange.NOISE, ContentChange.SAME))
    )
    first, last = format_time(CRAWLED + DAY), format_time(CRAWLED + 4 * DAY)
    (counts,) = [line for line in said if line.startswith("polled")]
    assert counts.startswith(f"polled 4 times, from {first} to {last}: 1 change found, and 1 time a difference")
    assert "2 versions of it are in the archive" in said
    assert [line for line in said if "fetched" in line] == [
        f'fetched {format_time(CRAWLED)} with status 200: "First" of no type, 0 B',
        f'fetched {format_time(CRAWLED + 2 * DAY)} with status 200: "Day 2" of no type, 0 B',
    ]


def test_a_page_without_polls_has_no_poll_history() -> None:
    assert not [line for line in _describe_outcomes(looks()) if "poll" in line or "version" in line]


def test_only_the_newest_changes_of_a_page_are_described() -> None:
    said = list(_describe_outcomes(looks(*[ContentChange.CHANGED] * 50)))
    assert f"the newest {POLLS_DESCRIBED} of 50 polls that found something:" in said
    assert sum("fetched" in line for line in said) == POLLS_DESCRIBED + 1
    assert any("Day 50" in line for line in said)
    assert "51 versions of it are in the archive" in said


def test_withdrawn_changes_are_not_counted() -> None:
    rows = looks(ContentChange.CHANGED, ContentChange.CHANGED, ContentChange.NOISE)
    withdrawn = (rows[1].at, rows[2].at)
    rows[3] = page(1, rows[3].at, polled="page", news=ContentChange.NOISE, withdrawn_at=withdrawn)
    (counts,) = [line for line in _describe_outcomes(rows) if line.startswith("polled")]
    assert counts.endswith("0 changes found, and 3 times a difference that is none to a reader")


@pytest.fixture
def chronicle(tmp_path: Path) -> Chronicle:
    kept = Chronicle(tmp_path / "atlas", UniformPolicy(), "uniform")
    (tmp_path / "atlas" / "fieldmouse.toml").write_text(settings_file.render(Settings()))
    return kept


def test_a_page_is_due_one_interval_after_its_last_poll(chronicle: Chronicle) -> None:
    chronicle.ledger.budget = 3 / DAY
    lost = OutcomeRow(url(7), OutcomeKind.FAILED, CRAWLED, reason=OutcomeReason.TIMEOUT)
    chronicle.settle([*(page(number, CRAWLED) for number in range(6)), lost])
    chronicle.settle([page(1, CRAWLED + DAY, polled="page", news=ContentChange.CHANGED)])
    chronicle.checkpoint()
    due = next_poll(chronicle.home, url(1), chronicle.newest)
    assert due is not None
    assert due.every == pytest.approx(2 * DAY)
    assert due.at == pytest.approx(CRAWLED + 3 * DAY)
    assert "every 2 d, next in 1 d" in describe_next_poll(due, CRAWLED + 2 * DAY)
    assert "overdue by 1 d" in describe_next_poll(due, CRAWLED + 4 * DAY)
    failed = next_poll(chronicle.home, url(7), chronicle.newest)
    assert failed is not None
    assert failed.every == RETRY_INTERVAL
    assert next_poll(chronicle.home, url(99), chronicle.newest) is None


def test_a_poll_in_flight_is_reported(chronicle: Chronicle) -> None:
    chronicle.ledger.budget = 3 / DAY
    chronicle.settle([page(1, CRAWLED)])
    number = chronicle.ledger.find_row(url(1))
    assert number is not None
    chronicle.ledger.mark_in_flight(np.array([number]))
    chronicle.checkpoint()
    due = next_poll(chronicle.home, url(1), chronicle.newest)
    assert due is not None
    assert describe_next_poll(due, CRAWLED) == "a poll of it is under way"
