"""The last words of a log are the same however it was read: at once, on and on, or anew."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log
from fieldmouse.storage.outcome_log_reader import NO_OUTCOMES, LatestOutcomeTimes, read_latest_outcomes
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.url import Url

URLS = [Url(f"http://example.org/{number}") for number in range(4)]
rows = st.lists(
    st.builds(
        OutcomeRow,
        st.sampled_from(URLS),
        st.sampled_from(list(OutcomeKind)),
        st.floats(1.0, 9.0),
        status=st.sampled_from([200, 404, 410, 500]),
        reason=st.sampled_from([OutcomeReason.NONE, OutcomeReason.ROBOTS_TXT_EXCLUDED]),
        polled=st.sampled_from(["", "page", "failed"]),
        news=st.sampled_from([ContentChange.NONE, ContentChange.MOVED, ContentChange.SAME]),
        unlisted=st.booleans(),
    ),
    max_size=30,
)


def append(home: CrawlDir, length: int, told: list[OutcomeRow]) -> int:
    log = Log(home / "outcomes.log", length)
    for row in told:
        log.append(msgspec.msgpack.encode(row))
    length = log.flush()
    log.close()
    return length


def plain(said: LatestOutcomeTimes) -> tuple[dict[int, float], dict[int, float]]:
    assert (np.diff(said.keys.astype(object)) > 0).all(), "in order, each once"
    return dict(zip(said.keys.tolist(), said.at.tolist(), strict=True)), said.unlisted


@pytest.fixture(autouse=True)
def _sorted_in_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_log_reader, "_MIN_BATCH", 3)


@given(st.lists(rows, min_size=1, max_size=4))
def test_latest_outcome_of_a_url_is_its_last_deciding_row(parts: list[list[OutcomeRow]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = CrawlDir.create(Path(name) / "c", shards=1, settings=b"")
        length, said = 0, NO_OUTCOMES
        for part in parts:
            length = append(home, length, part)
            said = read_latest_outcomes(home, length, said)
            last = {
                outcome_log_reader.url_hash(row.url): row.at
                for row in outcome_log_reader.outcome_rows(home, length=length)
                if outcome_log_reader.decides_page(row)
            }
            assert plain(said)[0] == last
            assert plain(said) == plain(read_latest_outcomes(home, length))
            assert {url: said.latest_time_of(outcome_log_reader.url_hash(url)) for url in URLS} == {
                url: last.get(outcome_log_reader.url_hash(url)) for url in URLS
            }


def test_another_crawl_in_the_same_place_is_read_from_its_beginning(tmp_path: Path) -> None:
    said = NO_OUTCOMES
    for number, url in enumerate(URLS[:2]):
        home = CrawlDir.create(tmp_path / "c", shards=1, settings=b"")
        length = append(home, 0, [OutcomeRow(url, OutcomeKind.PAGE, 1.0 + number)])
        said = read_latest_outcomes(home, length, said)
        assert plain(said)[0] == {outcome_log_reader.url_hash(url): 1.0 + number}
        (tmp_path / "c").rename(tmp_path / f"old-{number}")
