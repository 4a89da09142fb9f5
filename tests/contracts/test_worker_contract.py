"""Contract of a shard's lane: one in a worker process and one in this process give and keep the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import Failed, Moved, Page, WorkerResult
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Url
from fieldmouse.workers.inline_worker import InlineWorker
from fieldmouse.workers.pool import WorkerPool
from fieldmouse.workers.supervisor import WorkerConnection
from search.searchable import searchable_urls
from workers.responses import CONFIG, page, response, story

LANES = [WorkerConnection, InlineWorker]

HERE = Request(Url("http://example.org/moved"))
ANSWERS: list[Page | Moved | Failed] = [
    page("http://example.org/1", b"<a href=/2>next</a>" + story(1)),
    page("http://example.org/2", story(2)),
    page("http://example.org/packed", b"not packed", content_encoding="gzip"),
    Moved(HERE, response(status=301, location="/there"), Url("http://example.org/there")),
    Failed(
        Request(Url("http://example.org/gone")), OutcomeReason.CLIENT_ERROR, 1.0, "status 404", response(status=404)
    ),
    page("http://example.org/s.xml", b"<urlset><url><loc>/3</loc></url></urlset>", kind=RequestKind.SITEMAP),
]


async def tell(
    folder: Path, lane: type[WorkerConnection] | type[InlineWorker], rounds: int = 2
) -> tuple[list[WorkerResult], list[ShardState]]:
    """Send all answers, with a checkpoint after each round, and reopen between rounds."""
    heard: list[WorkerResult] = []
    lost: list[int] = []
    states: list[ShardState] | None = None
    turns = [ANSWERS[start::rounds] for start in range(rounds)]
    number = 0
    for turn in turns:
        told: list[WorkerResult] = []

        def on_parsed(parsed: Sequence[WorkerResult], told: list[WorkerResult] = told) -> None:
            told.extend(parsed)

        indexer = WorkerPool(
            folder, shards=1, states=states, config=CONFIG, on_parsed=on_parsed, on_undone=lost.extend, lane=lane
        )
        await indexer.start()
        await indexer.roll_back_and_accept()
        for answer in turn:
            number += 1
            assert indexer.has_room(0)
            indexer.send(number, answer)
        assert not told, "nothing comes back before the loop has had its turn"
        assert indexer.outstanding_pages == len(turn)
        states = await indexer.prepare_commit()
        assert len(told) == len(turn), "all that is durable is known"
        assert indexer.outstanding_pages == 0
        indexer.mark_committed()
        await indexer.merge_indexes_and_cdxj_logs()
        await indexer.close()
        heard += told
    assert not lost
    assert states is not None
    return heard, states


@pytest.mark.parametrize("lane", LANES)
def test_every_answer_is_delivered_once_in_order(
    lane: type[WorkerConnection] | type[InlineWorker], tmp_path: Path
) -> None:
    heard, (state,) = asyncio.run(tell(tmp_path, lane))
    assert [one.number for one in heard] == list(range(1, len(ANSWERS) + 1))
    assert {one.batch for one in heard} == {1, 2}
    assert state.batch == 2
    held = sorted(searchable_urls(tmp_path))
    assert held == sorted(one.link.url for one in ANSWERS if isinstance(one, Page))


def test_both_implementations_give_the_same_answers(tmp_path: Path) -> None:
    apart, here = (asyncio.run(tell(tmp_path / lane.__name__, lane))[0] for lane in LANES)
    assert [(one.kind, one.reason, one.size, one.links) for one in apart] == [
        (one.kind, one.reason, one.size, one.links) for one in here
    ]
