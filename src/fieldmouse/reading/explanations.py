"""What several crawls know of one URL: each for itself, and who has the last word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fieldmouse.crawldir import CrawlDir, outcomes
from fieldmouse.figures import when
from fieldmouse.reading.explanation import ELSEWHERE, Explanation, explain
from fieldmouse.records import OutcomeKind, OutcomeRow
from fieldmouse.url import Url


class Explanations(msgspec.Struct, frozen=True):
    """All that is known of one URL. `print` it, or take its parts."""

    url: Url
    place: str  # where it is in the crawl that knows most of it, in a phrase
    directory: str | None  # whose word on it is the newest; None if it has no outcome anywhere
    says: list[str]  # sentences about all crawls together
    crawls: dict[str, Explanation]  # by directory, in the order in which they were named

    @property
    def outcomes(self) -> list[tuple[str, OutcomeRow]]:
        """All of them with their directories, oldest first."""
        told = [(directory, row) for directory, one in self.crawls.items() for row in one.outcomes]
        return sorted(told, key=lambda placed: placed[1].at)

    @property
    def lines(self) -> list[str]:
        """What each crawl says, and what is said of all together, for people."""
        lines: list[str] = [self.url]
        # Of many agents one has fetched a page: that the others have nothing to say of it is said once.
        silent = [directory for directory, told in self.crawls.items() if told.says == [ELSEWHERE]]
        for directory, told in self.crawls.items():
            if directory not in silent:
                lines += [f"  in `{directory}`:", *(f"    {sentence}" for sentence in told.says)]
        if silent:
            lines.append(f"  {_listed(silent)} {'has' if len(silent) == 1 else 'have'} no outcome of it")
        return [*lines, *(f"  {sentence}" for sentence in self.says)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain_all(homes: Sequence[CrawlDir], url: Url, now: float | None = None) -> Explanations:
    """As of the newest checkpoint of each. Why nobody saw it is looked for only if nobody did."""
    told = [explain(home, url, now, absent=False) for home in homes]
    if not any(_is_known(one) for one in told):
        told = [explain(home, url, now) for home in homes]
    crawls = {str(home.path): one for home, one in zip(homes, told, strict=True)}
    last = max(
        ((name, row) for name, one in crawls.items() for row in one.outcomes[-1:]),
        key=lambda placed: placed[1].at, default=None,
    )  # fmt: skip
    known = [crawls[last[0]]] if last else [one for one in told if _is_known(one)] or told
    return Explanations(url, known[0].place, last[0] if last else None, list(_together(crawls)), crawls)


def _listed(directories: Sequence[str]) -> str:
    *others, last = [f"`{directory}`" for directory in directories]
    return f"{', '.join(others)} and {last}" if others else last


def _is_known(told: Explanation) -> bool:
    return bool(told.outcomes) or told.waiting is not None


def _together(crawls: dict[str, Explanation]) -> Iterator[str]:
    """Which copy is shown, where more than one crawl has something to say of that."""
    stated = [
        (name, row)
        for name, told in crawls.items()
        for row in [row for row in told.outcomes if outcomes.is_statement(row)][-1:]
    ]
    if len(stated) < 2:
        return
    name, row = max(stated, key=lambda placed: placed[1].at)
    shown = "its copy is shown" if row.kind is OutcomeKind.PAGE else "it is no page any more"
    yield f"of {len(stated)} crawls that asked for it `{name}` was the last, {when(row.at)}: {shown}"
