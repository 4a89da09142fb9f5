"""What was tried and what was lost, as a table."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .judging import Flaw, Verdict


@dataclass
class Score:
    """One kind of torture. `tried` counts kills, images, damages or faults; `cases` crawls judged."""

    tried: int = 0
    cases: int = 0
    alarms: int = 0
    flaws: Counter[Flaw] = field(default_factory=Counter)


class Scoreboard:
    """Takes verdicts from any thread; says each flaw at once, on the terminal and in `log`."""

    def __init__(self, log: Path):
        self.scores: dict[str, Score] = {}
        self._log = log
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def note(self, kind: str, verdict: Verdict, tried: int = 1) -> None:
        with self._lock:
            score = self.scores.setdefault(kind, Score())
            score.tried += tried
            score.cases += 1
            score.alarms += verdict.alarms
            score.flaws.update(verdict.flaws)
            lines = [f"{'FLAW' if verdict.flaws else 'ok'} {kind}: {verdict.case}"]
            lines += ["    " + note.replace("\n", "\n    ") for note in verdict.notes]
            with self._log.open("a", errors="backslashreplace") as log:
                print(*lines, sep="\n", file=log)
            if verdict.flaws:
                flaws = ", ".join(f"{flaw} {count}" for flaw, count in verdict.flaws.items())
                print(f"FLAW {kind}: {verdict.case}: {flaws}", flush=True)

    def blame(self, kind: str, flaw: Flaw, count: int, what: str) -> None:
        """A flaw that is seen only when all is over."""
        if count:
            verdict = Verdict(what)
            verdict.blame(flaw, what, count)
            self.note(kind, verdict, tried=0)
            self.scores[kind].cases -= 1

    @property
    def flawless(self) -> bool:
        return not any(score.flaws.total() for score in self.scores.values())

    def table(self) -> str:
        """Markdown, as it stands in docs/durability.md."""
        heads = ["", "tried", *(flaw.value for flaw in Flaw)]
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        total = Score()
        for kind, score in self.scores.items():
            lines.append(_line(kind, score))
            total.tried += score.tried
            total.flaws.update(score.flaws)
        lines.append(_line("**all**", total))
        minutes = (time.monotonic() - self._began) / 60
        cases = sum(score.cases for score in self.scores.values())
        alarms = sum(score.alarms for score in self.scores.values())
        lines += ["", f"{cases:,} crawls judged in {minutes:.0f} minutes; doctor reported {alarms} harmless leftovers."]
        return "\n".join(lines)


def _line(kind: str, score: Score) -> str:
    cells = [kind, f"{score.tried:,}", *(f"{score.flaws[flaw]:,}" for flaw in Flaw)]
    return "| " + " | ".join(cells) + " |"
