"""Findings of experiments, with their summary and file format.

Findings can be saved to a file, figures included, so that a report can combine runs of different days. The
file is JSON: a number that is not finite becomes null, and a gap in a curve when read again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse_lab.catalogue import Experiment, Result, Row, Verdict, finite_number

#: File format; increased whenever an older fieldmouse would misread the file.
FORMAT = 1

PLURALS = {Verdict.MISPRINT: "misprints", Verdict.OUTLIER: "outliers"}


def verdict_word(verdict: Verdict, count: int) -> str:
    return PLURALS.get(verdict, verdict.value) if count > 1 else verdict.value


@dataclass(frozen=True, slots=True)
class LabFinding:
    """An experiment with its result and its duration."""

    id: str
    group: str
    title: str
    about: str
    result: Result
    seconds: float

    @classmethod
    def of(cls, experiment: Experiment, result: Result, seconds: float) -> LabFinding:
        return cls(experiment.id, experiment.group, experiment.title, experiment.about, result, seconds)


def tally(findings: Iterable[LabFinding]) -> Counter[Verdict]:
    """Count the numbers per verdict."""
    return Counter(row.verdict for finding in findings for row in finding.result.rows)


def summarise(counts: Counter[Verdict]) -> str:
    """
    >>> summarise(Counter({Verdict.SAME: 1120, Verdict.MISPRINT: 1, Verdict.NEW: 3}))
    '1,124 numbers: 1,120 same, 1 misprint, 3 new'
    >>> summarise(Counter())
    'no numbers'
    """
    if not counts.total():
        return "no numbers"
    parts = [f"{counts[verdict]:,} {verdict_word(verdict, counts[verdict])}" for verdict in Verdict if counts[verdict]]
    return f"{counts.total():,} number{'s' if counts.total() > 1 else ''}: {', '.join(parts)}"


def finding_to_json(finding: LabFinding) -> dict[str, Any]:
    """JSON value that `lab run --json` prints for one experiment."""
    return {
        "id": finding.id,
        "group": finding.group,
        "title": finding.title,
        "rows": [_row(row, row.label) for row in finding.result.rows],
        "remarks": list(finding.result.remarks),
        "figures": [figure.name for figure in finding.result.figures],
        "seconds": finding.seconds,
    }


def findings_to_json(name: str, findings: Sequence[LabFinding]) -> dict[str, Any]:
    """JSON value for several experiments, with all their rows repeated in one list."""
    rows = [_row(row, f"{finding.id}: {row.label}") for finding in findings for row in finding.result.rows]
    return {
        "id": name,
        "rows": rows,
        "experiments": [finding_to_json(finding) for finding in findings],
        "seconds": sum(finding.seconds for finding in findings),
    }


def _row(row: Row, label: str) -> dict[str, Any]:
    return {
        "label": label,
        **{name: finite_number(getattr(row, name)) for name in ("printed", "ours", "spread")},
        "verdict": row.verdict.value,
        "note": row.note,
        **row.fields,
    }


class _Kept(msgspec.Struct):
    findings: list[Any]
    format: int


def encode_findings(findings: Iterable[LabFinding]) -> bytes:
    """Encode findings as a file."""
    return msgspec.json.encode(_Kept(list(findings), FORMAT), enc_hook=lambda array: array.tolist())


def read_findings(path: Path) -> list[LabFinding]:
    """Read the findings saved in a file."""
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
    except OSError as trouble:
        raise UsageError(f"cannot read `{path}`: {trouble.strerror}", "check the name of the file") from None
    except msgspec.MsgspecError as trouble:
        raise _not_ours(path, trouble) from None
    if kept.format != FORMAT:
        raise FieldmouseError(
            f"`{path}` holds findings of format {kept.format}; this fieldmouse reads format {FORMAT}",
            "run the experiments again with `--keep`",
        )
    try:
        return [msgspec.convert(_with_gaps(one), LabFinding) for one in kept.findings]
    except (msgspec.MsgspecError, TypeError, KeyError) as trouble:
        raise _not_ours(path, trouble) from None


def _with_gaps(finding: dict[str, Any]) -> dict[str, Any]:
    """Replace null in curves by nan."""
    for figure in finding["result"]["figures"]:
        for panel in figure["panels"]:
            for series in panel["series"]:
                for axis in ("x", "y"):
                    series[axis] = [math.nan if value is None else value for value in series[axis]]
    return finding


def _not_ours(path: Path, trouble: Exception) -> FieldmouseError:
    return FieldmouseError(
        f"`{path}` holds no findings: {trouble}", "such a file is written by `fieldmouse lab run NAME --keep`"
    )
