"""Construction of outcome log rows from a request, its response and the change verdict."""

from __future__ import annotations

from fieldmouse.indexer.judge import UNHEARD, Judgement
from fieldmouse.outcome import OutcomeKind
from fieldmouse.records import Link, OutcomeRow, Reason


def row_of(
    link: Link, kind: OutcomeKind, at: float, reason: Reason | None = None, detail: str = "",
    said: Judgement = UNHEARD, **known: object,
) -> OutcomeRow:  # fmt: skip
    return OutcomeRow(
        link.url, kind, at, depth=link.depth, via=link.via, seen_at=link.seen_at, tries=link.tries,
        found_as=link.kind.value, reason=reason or Reason.NONE, detail=detail, polled=link.was,
        news=said.news, difference=said.difference, withdrawn_at=said.withdrawn_at, memory=said.memory,
        **known,  # type: ignore[arg-type]
    )  # fmt: skip
