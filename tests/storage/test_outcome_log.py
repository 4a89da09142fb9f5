"""Reading the outcome log: one page and all pages are read alike, whatever was fetched again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import Log
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url

URLS = [Url(f"http://example.org/{number}") for number in range(3)]
rows = st.lists(
    st.builds(
        OutcomeRow,
        st.sampled_from(URLS),
        st.sampled_from([OutcomeKind.PAGE, OutcomeKind.FAILED, OutcomeKind.MOVED, OutcomeKind.UNCHANGED]),
        st.just(1.0),
        status=st.sampled_from([200, 404, 410, 500]),
        polled=st.sampled_from(["", "page", "failed"]),
    ),
    max_size=12,
)


@given(rows)
def test_one_page_is_found_where_all_pages_are_and_nowhere_else(told: list[OutcomeRow]) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = CrawlDir.create(Path(name) / "c", shards=1, settings=b"")
        log = Log(home / "outcomes.log")
        for row in told:
            log.append(msgspec.msgpack.encode(row))
        length = log.flush()
        log.close()
        pages = {row.url: row for row in outcome_log_reader.newest_page_rows(home, length=length)}
        assert {
            url: outcome_log_reader.newest_page_row(outcome_log_reader.rows_of(home, url, length=length))
            for url in URLS
        } == {url: pages.get(url) for url in URLS}
        every = list(outcome_log_reader.page_rows_from(home, 0, length=length))
        assert [row for row, _ in every] == [row for row in told if row.kind is OutcomeKind.PAGE]
        for number, (_, end) in enumerate(every, 1):
            assert list(outcome_log_reader.page_rows_from(home, end, length=length)) == every[number:]
