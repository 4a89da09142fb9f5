"""A crawl reduced to what telling is about: it writes rows, makes checkpoints, and tells. To be killed.

    python -m notify.teller DIR ROWS

Everything that is durable is the real thing: journal, parts, outcome log, notifier, channels.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from fieldmouse.clock import WallClock
from fieldmouse.config import settings_file
from fieldmouse.crawler.crawler import wait_for_consumer
from fieldmouse.notify.setup import build_notifier
from fieldmouse.storage.changes_from_outcomes import NewPageBaseline
from fieldmouse.storage.checkpoint import CheckpointParts, DurableLog, SealedPart, open_journal
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.outcome_log_reader import outcome_rows
from fieldmouse.types.outcome import ContentChange, OutcomeRow
from fieldmouse.types.reason import OutcomeKind
from fieldmouse.url import Url

CHECKPOINT = 0.05


class Shards:
    """Whoever reads a checkpoint counts these."""

    name = "shards"

    def roll_back_to_checkpoint(self) -> None: ...

    def seal(self) -> SealedPart[list[int]]:
        return SealedPart([0])

    def on_checkpoint_committed(self) -> None: ...

    def close(self) -> None: ...


class Refresh(Shards):
    name = "refresh"

    def seal(self) -> SealedPart[NewPageBaseline]:  # type: ignore[override]
        return SealedPart(NewPageBaseline(1.0))


async def crawl(directory: Path, wanted: int) -> None:
    home, clock = CrawlDir.open(directory), WallClock()
    home.lock()
    settings = settings_file.load(home / "fieldmouse.toml")
    journal, last = open_journal(home)
    outcomes = DurableLog("outcomes", home / "outcomes.log", last)
    written = len(list(outcome_rows(home, length=outcomes.length)))
    notifier = build_notifier(home, last, settings, clock)
    parts = CheckpointParts(home, journal, [Shards(), outcomes, Refresh(), notifier], last)
    parts.open_for_writing()

    async def checkpoint() -> None:
        moment = parts.seal(clock.now())
        await asyncio.get_running_loop().run_in_executor(None, parts.commit, moment)
        parts.notify_committed()

    await checkpoint()
    while written < wanted:
        for number in range(written, min(written + 2, wanted)):
            row = OutcomeRow(
                Url(f"http://a.example/{number}"),
                OutcomeKind.PAGE,
                at=clock.now(),
                polled="page",
                news=ContentChange.CHANGED if number % 4 else ContentChange.SAME,
                title=f"page {number}",
                difference=0.5,
            )
            outcomes.append(msgspec.msgpack.encode(row))
            written += 1
        await asyncio.sleep(CHECKPOINT)
        await checkpoint()
    await wait_for_consumer(notifier, checkpoint, clock, every=CHECKPOINT)
    await checkpoint()
    sys.stdout.write(msgspec.json.encode(await notifier.undelivered_counts()).decode())
    notifier.close()
    home.unlock()


if __name__ == "__main__":
    asyncio.run(crawl(Path(sys.argv[1]), int(sys.argv[2])))
