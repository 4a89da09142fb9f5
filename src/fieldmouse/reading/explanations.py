"""Explanation of one URL across several crawls, and which of them has the newest outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

import msgspec

from fieldmouse.crawldir import CrawlDir, outcomes
from fieldmouse.figures import when
from fieldmouse.reading.explanation import ELSEWHERE, Explanation, explain
from fieldmouse.records import OutcomeKind, OutcomeRow
from fieldmouse.url import Url


class Explanations(msgspec.Struct, frozen=True):
    """Everything several crawls have recorded about one URL. `print` it, or use its fields."""

    url: Url
    place: str  # in the crawl with the newest outcome, else the first that has seen it; a phrase
    directory: str | None  # crawl with the newest outcome; None if no crawl has one
    says: list[str]  # sentences about all crawls together
    crawls: dict[str, Explanation]  # by directory, in the order given

    @property
    def outcomes(self) -> list[tuple[str, OutcomeRow]]:
        """All outcomes with their directories, oldest first."""
        rows = [(directory, row) for directory, crawl in self.crawls.items() for row in crawl.outcomes]
        return sorted(rows, key=lambda placed: placed[1].at)

    @property
    def lines(self) -> list[str]:
        """The sentences of each crawl, then those about all of them, as text lines."""
        lines: list[str] = [self.url]
        # Usually one agent of many has fetched a page: list the agents without an outcome in one line.
        silent = [directory for directory, crawl in self.crawls.items() if crawl.says == [ELSEWHERE]]
        for directory, crawl in self.crawls.items():
            if directory not in silent:
                lines += [f"  in `{directory}`:", *(f"    {sentence}" for sentence in crawl.says)]
        if silent:
            lines.append(f"  {_listed(silent)} {'has' if len(silent) == 1 else 'have'} no outcome of it")
        return [*lines, *(f"  {sentence}" for sentence in self.says)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain_all(homes: Sequence[CrawlDir], url: Url, now: float | None = None) -> Explanations:
    """Explain a URL as of the newest checkpoint of each crawl.

    The archives are searched for a reason only if no crawl has seen the URL.
    """
    explained = [explain(home, url, now, absent=False) for home in homes]
    if not any(map(_is_known, explained)):
        explained = [explain(home, url, now) for home in homes]
    crawls = {str(home.path): crawl for home, crawl in zip(homes, explained, strict=True)}
    newest = [(crawl.outcomes[-1].at, name) for name, crawl in crawls.items() if crawl.outcomes]
    last = max(newest, key=itemgetter(0), default=(0.0, None))[1]
    seen = [crawls[last]] if last is not None else [*filter(_is_known, explained)] or explained
    return Explanations(url, seen[0].place, last, list(_together(crawls)), crawls)


def _listed(directories: Sequence[str]) -> str:
    *others, last = [f"`{directory}`" for directory in directories]
    return f"{', '.join(others)} and {last}" if others else last


def _is_known(crawl: Explanation) -> bool:
    return bool(crawl.outcomes) or crawl.waiting is not None


def _together(crawls: dict[str, Explanation]) -> Iterator[str]:
    """Which copy is shown, if more than one crawl has an outcome of the URL."""
    stated = [
        (name, row)
        for name, crawl in crawls.items()
        for row in [row for row in crawl.outcomes if outcomes.is_statement(row)][-1:]
    ]
    if len(stated) < 2:
        return
    name, row = max(stated, key=lambda placed: placed[1].at)
    shown = "its copy is shown" if row.kind is OutcomeKind.PAGE else "it is no longer a page"
    yield f"of {len(stated)} crawls that asked for it `{name}` was the last, {when(row.at)}: {shown}"
