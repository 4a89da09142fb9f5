"""Tests of checksums: every changed byte of an index file is detected before tantivy fails on it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tantivy

from fieldmouse.search.index import index_file_damage


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of a small index, one of each kind."""
    home = tmp_path_factory.mktemp("index")
    schema = tantivy.SchemaBuilder().add_text_field("text", stored=True).build()
    index = tantivy.Index(schema, path=str(home))
    writer = index.writer(15_000_000, 1)
    writer.add_document(tantivy.Document(text="a field mouse"))
    writer.commit()
    writer.wait_merging_threads()
    return sorted(path for path in home.iterdir() if len(path.stem) == 32)


def test_intact_tantivy_files_pass(files):
    assert len({path.suffix for path in files}) >= 6
    assert [index_file_damage(path) for path in files] == [""] * len(files)


def test_flipped_bit_in_the_footer_is_detected_or_harmless(files, tmp_path):
    """A bit is harmless if it does not change the meaning of the footer, as in the unused part of the
    version."""
    path = files[0]
    whole = path.read_bytes()
    end = len(whole) - len(whole[whole.rindex(b'{"version"') :])
    hurt = tmp_path / path.name
    unseen = []
    for at in range(end, len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            hurt.write_bytes(changed)
            if not index_file_damage(hurt, through=True):
                unseen.append(at - end)
    digits = {place for place, byte in enumerate(whole[end : whole.rindex(b"crc")]) if chr(byte).isdigit()}
    assert set(unseen) <= digits
