"""Findings kept in a file are the findings."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse_lab import findings
from fieldmouse_lab.catalogue import Figure, Panel, Result, Row, Series, Verdict
from fieldmouse_lab.findings import LabFinding

texts = st.text(max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
rows = st.builds(
    Row, texts, st.none() | finite, st.none() | finite, st.none() | finite, st.sampled_from(Verdict), texts
)
curves = st.lists(finite | st.just(math.nan), max_size=5)
series = st.builds(Series, texts, curves, curves, st.sampled_from(["line", "points", "bars"]))
panels = st.builds(Panel, texts, texts, st.lists(series, max_size=2).map(tuple), texts, st.booleans(), st.booleans())
figures = st.builds(Figure, texts, texts, st.lists(panels, max_size=2).map(tuple), texts)
results = st.builds(
    Result,
    st.lists(rows, max_size=4).map(tuple),
    st.lists(figures, max_size=2).map(tuple),
    st.lists(texts, max_size=2).map(tuple),
)
found = st.builds(LabFinding, texts, texts, texts, texts, results, st.floats(0, 1e6))


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@given(st.lists(found, max_size=3))
def test_saved_findings_can_be_read_back(tmp_path_factory: pytest.TempPathFactory, kept: list[LabFinding]) -> None:
    path = tmp_path_factory.mktemp("kept") / "findings.json"
    path.write_bytes(findings.encode_findings(kept))
    # NaN is not equal to itself, so both are compared as they are written.
    assert repr(findings.read_findings(path)) == repr(kept)


@given(found)
def test_json_has_every_row_and_only_finite_numbers(finding: LabFinding) -> None:
    told = json.loads(json.dumps(findings.finding_to_json(finding)), parse_constant=refuse)
    assert [row["label"] for row in told["rows"]] == [row.label for row in finding.result.rows]
    together = json.loads(json.dumps(findings.findings_to_json("two", [finding, finding])), parse_constant=refuse)
    assert len(together["rows"]) == 2 * len(told["rows"])
    assert all(row["label"].startswith(f"{finding.id}: ") for row in together["rows"])


@pytest.mark.parametrize("odd", [math.nan, math.inf, np.float64("nan"), np.float32("-inf")])
def test_a_number_that_is_not_finite_is_null(odd: float, tmp_path: Path) -> None:
    row = Row("odd", odd, odd, odd, Verdict.NEW)
    curve = Series("odd", np.array([1.0, 2.0]), np.array([odd, 3.0]))
    result = Result((row,), (Figure("f", "", (Panel("", "", (curve,)),)),))
    finding = LabFinding("odd", "", "", "", result, 0.0)
    assert findings.finding_to_json(finding)["rows"][0] | {"label": "", "note": ""} == {
        "label": "",
        "printed": None,
        "ours": None,
        "spread": None,
        "verdict": "new",
        "note": "",
    }
    path = tmp_path / "odd.json"
    path.write_bytes(findings.encode_findings([finding]))
    (again,) = findings.read_findings(path)
    (series,) = again.result.figures[0].panels[0].series
    assert math.isnan(series.y[0])
    assert series.y[1] == 3.0


def test_numbers_of_numpy_are_numbers() -> None:
    row = Row("ours", np.int64(3), np.float64(2.5), np.float32(0.5), Verdict.SAME)
    finding = LabFinding("numpy", "", "", "", Result((row,)), 0.0)
    told = json.loads(json.dumps(findings.finding_to_json(finding)))["rows"][0]
    assert (told["printed"], told["ours"], told["spread"]) == (3.0, 2.5, 0.5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no findings"),
        (b"[]", "holds no findings"),
        (b'{"id":"tiny","rows":[]}', "holds no findings"),
        (b'{"findings":[],"format":99}', "format 99"),
        (b'{"findings":[3],"format":1}', "holds no findings"),
        (b'{"findings":[{"id":"a"}],"format":1}', "holds no findings"),
    ],
)
def test_a_file_that_is_something_else_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "else.json"
    path.write_bytes(content)
    with pytest.raises(FieldmouseError, match=message) as trouble:
        findings.read_findings(path)
    assert str(path) in str(trouble.value)
    assert "--keep" in trouble.value.hint


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.json"):
        findings.read_findings(tmp_path / "missing.json")
