"""Check of an agent's outbox, record by record."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmouse.cluster.client.coordinator_outbox import LinksMessage, Outbox
from fieldmouse.doctor.check.examine import check_parts
from fieldmouse.storage.checkpoint import CheckpointParts, DurableLog, open_journal
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import Host

from .damaging import DAMAGES


@pytest.fixture
def agent(tmp_path: Path) -> CrawlDir:
    home = CrawlDir.create(tmp_path / "c", shards=1, settings=b"", key_seed=7)
    journal, last = open_journal(home)
    tellings = Outbox(home / "board", last, lambda: 0.0)
    unbooked = DurableLog("unbooked", home / "unbooked.log", last)
    parts = CheckpointParts(home, journal, (tellings, unbooked), last)
    parts.open_for_writing()
    for number in range(9):
        tellings.add_links(LinksMessage(Host(f"http://{number}.test"), ((number, b"row"),)))
        unbooked.append(b"a record")
    parts.commit(parts.seal(1000.0))
    for part in (tellings, unbooked, journal):
        part.close()
    return home


@pytest.mark.parametrize("file", ["board/tell-1.log", "unbooked.log"])
@pytest.mark.parametrize("damage", ["flip", "first byte", "cut", "delete"])
def test_damage_to_an_agents_outbox_is_found(agent: CrawlDir, file: str, damage: str) -> None:
    assert all(finding.healthy for finding in check_parts(agent))
    DAMAGES[damage](agent / file)
    (hurt,) = [finding for finding in check_parts(agent) if not finding.healthy]
    assert file in f"{hurt}"
