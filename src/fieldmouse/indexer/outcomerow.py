"""Construction of outcome log rows from a request, its response and the change verdict."""

from __future__ import annotations

from typing import Any

from fieldmouse.indexer.judge import UNHEARD, Judgement
from fieldmouse.outcome import OutcomeKind
from fieldmouse.records import Link, OutcomeRow

_OF_THE_REQUEST = ("depth", "via", "seen_at", "tries")


def row_of(
    link: Link, kind: OutcomeKind, at: float, judgement: Judgement = UNHEARD, **columns: Any
) -> OutcomeRow:
    """Build a row from a request and the verdict of a poll; `columns` are those of the response."""
    columns |= {name: getattr(link, name) for name in _OF_THE_REQUEST} | judgement._asdict()
    return OutcomeRow(link.url, kind, at, found_as=link.kind.value, polled=link.was, **columns)
