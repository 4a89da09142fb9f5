"""Tests of row encoding: all rows of a page are encoded, or none."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.plugins.link_filter import EncodedExtractRows, encode_rows
from fieldmouse.plugins.runner import InvalidPluginResult

keys = st.text("abcé\n\r\u2028", max_size=3)
plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, width=32)
values = st.recursive(
    plain.filter(lambda value: value not in (float("inf"), -float("inf")))
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
rows = st.lists(st.dictionaries(keys, values, max_size=4), max_size=5)


@given(rows)
def test_decoded_rows_equal_the_encoded_ones(given: list[dict[str, Any]]) -> None:
    made = encode_rows(iter(given), 1 << 20)
    lines = made.lines.split(b"\n")
    assert lines.pop() == b""
    assert [msgspec.json.decode(line) for line in lines] == given
    assert made.count == len(given)


@given(rows, st.integers(0, 400))
def test_rows_never_exceed_the_byte_limit(given: list[dict[str, Any]], most: int) -> None:
    whole = encode_rows(given, 1 << 20)
    if len(whole.lines) <= most:
        assert encode_rows(given, most) == whole
    else:
        with pytest.raises(InvalidPluginResult, match=f"more than {most} bytes"):
            encode_rows(given, most)


@dataclass
class Vole:
    name: str


class Shrew(msgspec.Struct):
    name: str


@pytest.mark.parametrize(
    "row", [{"name": "x"}, OrderedDict(name="x"), MappingProxyType({"name": "x"}), Vole("x"), Shrew("x")]
)
def test_mappings_and_typed_records_are_rows(row: Mapping[str, str] | Vole | Shrew) -> None:
    assert encode_rows(row, 100) == encode_rows([row], 100) == EncodedExtractRows(b'{"name":"x"}\n', 1)


def test_none_and_an_empty_list_give_no_rows() -> None:
    assert encode_rows(None, 100) == encode_rows([], 100) == EncodedExtractRows()
    assert encode_rows({}, 100) == EncodedExtractRows(b"{}\n", 1)
