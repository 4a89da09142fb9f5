"""What servers say of when their pages changed, and who is believed."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.http.headers import parse_date
from fieldmouse.policy import change_rate
from fieldmouse.policy.polling import registry
from fieldmouse.refresh.last_modified import parse_last_modified
from fieldmouse.types.outcome import ContentChange, OutcomeRow

from .chronicle import Chronicle, page

DAY = 86_400.0
START = 1.7e9
PAGES = 60

Tells = Callable[[float, float], float]
"""A `Last-Modified` of when a page really changed and of when it is asked for."""


def polled(path: Path, per_day: float | list[float], tells: Tells) -> Chronicle:
    """Pages that change so often, looked at day after day; their server tells dates."""
    rng = np.random.default_rng(3)
    chronicle = Chronicle(path, registry.create_policy("learned"), "learned")
    mean = DAY / np.resize(per_day, PAGES)
    since = START - rng.exponential(mean)

    def row(number: int, at: float, **known: object) -> OutcomeRow:
        date = formatdate(int(tells(float(since[number]), at)), usegmt=True)
        return page(number, at, last_modified=date, **known)

    chronicle.settle([row(number, START) for number in range(PAGES)])
    for look in range(1, 5):
        at = START + look * DAY
        ages = rng.exponential(mean)  # of the last change before now
        changed = ages < DAY
        since[changed] = at - ages[changed]
        news = np.where(changed, ContentChange.CHANGED, ContentChange.SAME).tolist()
        chronicle.settle(row(n, at, polled="page", news=ContentChange(news[n])) for n in range(PAGES))
    return chronicle


def rates(chronicle: Chronicle) -> list[float]:
    return change_rate.estimated_rate(chronicle.ledger.change_rate_beliefs(np.arange(PAGES))).tolist()


def by_looks(chronicle: Chronicle) -> list[float]:
    return change_rate.estimated_rate(chronicle.ledger.column("belief")).tolist()


def test_true_dates_show_the_rate_of_pages_that_changed_at_every_poll(tmp_path: Path) -> None:
    chronicle = polled(tmp_path / "c", [8.0, 32.0], lambda since, at: since)
    slow, fast = (np.median(rates(chronicle)[first::2]) * DAY for first in (0, 1))
    assert slow == pytest.approx(8.0, rel=0.3)
    assert fast == pytest.approx(32.0, rel=0.3)
    assert len(set(by_looks(chronicle))) == 1, "looks cannot tell"


@pytest.mark.parametrize("per_day", [0.3, 3.0])
@pytest.mark.parametrize("tells", [lambda since, at: at, lambda since, at: START - 9 * DAY])
def test_dates_that_are_the_time_of_the_request_or_never_move_count_for_nothing(
    tmp_path: Path, per_day: float, tells: Tells
) -> None:
    chronicle = polled(tmp_path / "c", per_day, tells)
    assert rates(chronicle) == by_looks(chronicle)


def test_a_host_whose_dates_become_wrong_loses_its_weight(tmp_path: Path) -> None:
    honest = polled(tmp_path / "c", 1.0, lambda since, at: since)
    assert rates(honest) != by_looks(honest)
    at = START + 10 * DAY
    told = formatdate(at, usegmt=True)
    honest.settle(page(n, at, last_modified=told, polled="page", news=ContentChange.SAME) for n in range(PAGES))
    assert rates(honest) == by_looks(honest)


@given(st.integers(0, 4 * 10**9))
def test_the_cached_date_parser_agrees_with_the_full_one(at: int) -> None:
    text = formatdate(at, usegmt=True)
    assert parse_last_modified(text, 1e9) == parse_last_modified(text, 1e9) == parse_date(text, 1e9) == at


@given(st.text(alphabet="Sun, 06 Nov 1994 08:49:37 GMT-a", min_size=25, max_size=33))
def test_odd_dates_are_read_like_the_full_parser_reads_them(text: str) -> None:
    read = parse_date(text, 1e9)
    for _ in range(2):
        assert parse_last_modified(text, 1e9) == pytest.approx(np.nan if read is None else read, nan_ok=True)
