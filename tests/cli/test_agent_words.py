"""The last words of an agent of a network, which is not continued as a crawl of its own is."""

from __future__ import annotations

import msgspec
import pytest

from fieldmouse.cli import progress, voice
from fieldmouse.outcome import StoppedBy
from fieldmouse.settings import Settings
from fieldmouse.summary import Summary, WholeCrawl

DONE = Summary(
    pages=184, hosts=11, seconds=29.0, pages_per_second=6.3, seen=2066, waiting=0, failed=1, refused=0,
    moved=0, lost=0, bytes=16_000_000, peak_rss_mb=200.0, exit=0, giving_hosts=0,
    whole=WholeCrawl(agents=2, pages=712, seen=2829, booked=713, waiting=0, again=0),
)  # fmt: skip
STOPPED = msgspec.structs.replace(DONE, exit=130, stopped_by=StoppedBy.SIGNAL, waiting=1881)


def last_words(summary: Summary, said: pytest.CaptureFixture[str]) -> str:
    voice.mute(False)  # whoever asked for JSON before us
    progress.tell(summary, Settings(), "my west")
    return said.readouterr().err


def test_an_agent_that_was_stopped_is_continued_as_an_agent(capsys: pytest.CaptureFixture[str]) -> None:
    told = last_words(STOPPED, capsys)
    assert "`fieldmouse agent 'my west' --board URL`" in told
    assert "resume" not in told
    alone = last_words(msgspec.structs.replace(STOPPED, whole=None), capsys)
    assert "`fieldmouse resume 'my west'`" in alone


def test_an_agent_counts_no_hosts_that_gave_their_first_page_to_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = last_words(DONE, capsys)
    assert "184 pages, 16 MB" in told
    assert "host" not in told.partition("\n")[0]
    assert "--with" in told
    alone = last_words(msgspec.structs.replace(DONE, whole=None, giving_hosts=3), capsys)
    assert "184 pages from 3 hosts" in alone
