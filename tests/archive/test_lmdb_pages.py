"""Tests of the LMDB check for pages that are both free and in use, before one is overwritten."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from fieldmouse.archive.lmdb_check import page_allocation_error

PAGE = 4096


def filled(path: Path, seed: int, rounds: int = 30, *, large: bool = False) -> dict[bytes, bytes]:
    """A file with many transactions, and its expected content."""
    dice, holds = random.Random(seed), {}
    with lmdb.open(str(path), subdir=False, map_size=1 << 28) as env:
        for _ in range(rounds):
            with env.begin(write=True) as txn:
                for _ in range(dice.randrange(1, 400)):
                    key = dice.randbytes(20)
                    value = dice.randbytes(8 if not large else dice.randrange(8, 20_000))
                    txn.put(key, value)
                    holds[key] = value
                for key in dice.sample(sorted(holds), len(holds) // 8):
                    txn.delete(key)
                    del holds[key]
    return holds


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_intact_lmdb_file_passes(tmp_path: Path, seed: int, large: bool) -> None:
    filled(tmp_path / "f", seed, large=large)
    assert page_allocation_error(tmp_path / "f", leaves=True) == page_allocation_error(tmp_path / "f") == ""


def test_new_file_passes_and_other_files_fail(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path / "f"), subdir=False).close()
    assert page_allocation_error(tmp_path / "f", leaves=True) == ""
    for name, content in {"empty": b"", "zeros": bytes(3 * PAGE), "text": b"no pages here" * 900}.items():
        (tmp_path / name).write_bytes(content)
        assert page_allocation_error(tmp_path / name)


GOES_ON = """
import lmdb, pickle, sys
path, holds = sys.argv[1], pickle.load(sys.stdin.buffer)
with lmdb.open(path, subdir=False, map_size=1 << 28) as env:
    for number in range(40):
        with env.begin(write=True) as txn:
            for each in range(60):
                key = number.to_bytes(2, "big") + each.to_bytes(18, "little")
                holds[key] = bytes(8)
                txn.put(key, bytes(8))
    with env.begin() as txn:
        assert dict(txn.cursor()) == holds
"""


def test_undetected_damage_of_the_free_list_is_harmless(tmp_path: Path) -> None:
    """For every changed byte: the damage is reported, or the file can be written and holds everything."""
    path = tmp_path / "f"
    holds = filled(path, seed=7)
    whole = path.read_bytes()
    newest = max((0, PAGE), key=lambda at: int.from_bytes(whole[at + 144 : at + 152], "little"))
    root = int.from_bytes(whole[newest + 80 : newest + 88], "little")
    depth = int.from_bytes(whole[newest + 46 : newest + 48], "little")
    assert depth == 1
    dice, seen, passed = random.Random(1), 0, 0
    for at in sorted(dice.sample(range(root * PAGE, (root + 1) * PAGE), 300)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
        if page_allocation_error(path):
            seen += 1
            continue
        passed += 1
        if passed % 10 == 0:  # each needs a process
            words = [sys.executable, "-c", GOES_ON, str(path)]
            assert subprocess.run(words, input=pickle.dumps(holds), check=False).returncode == 0, at - root * PAGE
    assert seen > 10
    assert passed > 10
