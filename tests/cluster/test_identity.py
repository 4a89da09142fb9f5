"""An agent keeps its name while its file can be read, and gets a new one otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmouse.cluster.client.identity import begin_start, is_agent_directory, read_identity, read_original_identity
from fieldmouse.storage.directory import AGENT_FILE

DAMAGE = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b'{"agent": 5, "incarnation": "x", "lies_at": []}',
    b'{"agent": "a b:c", "incarnation": 5, "lies_at": ""}',
    b'{"agent": "a", "incarnation": -5, "lies_at": ""}',
    b'{"agent": "a", "incarnation": 4611686018427387904, "lies_at": ""}',
    b'{"agent": "a", "incarnation": 99999999999999999999999999, "lies_at": ""}',
]


def test_starts_of_an_agent_share_a_name_and_have_growing_numbers(tmp_path: Path) -> None:
    first, second = begin_start(tmp_path, "crawl"), begin_start(tmp_path, "crawl")
    assert first.agent == second.agent
    assert first.incarnation < second.incarnation


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_agent_with_a_damaged_name_takes_a_new_one(tmp_path: Path, damage: bytes) -> None:
    """`doctor` could not restore the name, and nothing depends on it: its hosts go to others."""
    before = begin_start(tmp_path, "crawl")
    (tmp_path / AGENT_FILE).write_bytes(damage)
    assert is_agent_directory(tmp_path)
    assert read_identity(tmp_path) is None
    origin = read_original_identity(tmp_path)
    assert origin is not None
    assert origin.agent == ""
    after = begin_start(tmp_path, "crawl")
    assert after.agent != before.agent
    assert 0 < after.incarnation < 2**53
    assert begin_start(tmp_path, "crawl").agent == after.agent
