"""Sections `[control]` and `[cost]`: the number of concurrent fetches, and the costs it is chosen by."""

from __future__ import annotations

from typing import Annotated

from fieldmouse.errors import SettingsError
from fieldmouse.policy.thresholds import check_rule
from fieldmouse.settings import kinds
from fieldmouse.settings.kinds import About
from fieldmouse.settings.sections import Section

_STEP = 4


class ControlSection(Section, frozen=True):
    """Number of concurrent fetches, given the pages that wait for the indexer (see docs/control.md)."""

    mode: Annotated[
        str,
        About(
            kinds.one_of("fixed", "thresholds", "auto"),
            "always `fetch.concurrency`, or fewer as the buffer fills: by your limits or by fitted ones",
        ),
    ] = "fixed"
    robots: Annotated[
        tuple[int, ...],
        About(kinds.COUNTS, "thresholds: concurrent fetches, from empty to full buffer"),
    ] = ()
    limits: Annotated[
        tuple[int, ...],
        About(kinds.COUNTS, "thresholds: most pages in the buffer for each of them but the last"),
    ] = ()
    modes: Annotated[
        tuple[int, ...],
        About(
            kinds.COUNTS, "auto: numbers of fetches to choose from; none for a few up to `fetch.concurrency`"
        ),
    ] = ()
    every: Annotated[float, About(kinds.DURATION, "auto: time between two decisions")] = 60.0
    pages: Annotated[int, About(kinds.POSITIVE, "auto: fewest pages between two decisions")] = 200
    explore: Annotated[
        float, About(kinds.DURATION, "auto: how long each number of fetches is tried at the start")
    ] = 10.0
    memory: Annotated[float, About(kinds.DURATION, "auto: age up to which measurements are used")] = 1200.0
    trace: Annotated[
        int, About(kinds.SIZE, "most bytes of pages.trace, to which a model can be fitted; 0 for none")
    ] = 16 << 20

    @property
    def dropping(self) -> bool:
        """Whether a page that meets a full buffer is dropped, as in the model; `buffer.when_full` overrides
        it."""
        return self.mode != "fixed"

    def candidates(self, most: int) -> tuple[int, ...]:
        """Numbers of fetches that `auto` chooses from, ascending; `most` is `fetch.concurrency`.

        >>> ControlSection().candidates(128), ControlSection(modes=(3, 1)).candidates(128)
        ((2, 8, 32, 128), (1, 3))
        """
        if self.modes:
            return tuple(sorted(set(self.modes)))
        numbers = [most]
        while len(numbers) < 4 and numbers[0] > 1:
            numbers.insert(0, max(1, numbers[0] // _STEP))
        return tuple(numbers)

    def check(self, most: int) -> None:
        """Raise `SettingsError` if the rule is invalid; `most` is `fetch.concurrency`."""
        if self.mode == "thresholds":
            check_rule(self.robots, self.limits, "control.")
            if self.robots[0] == 0:
                raise SettingsError("`control.robots` allows no fetch", "start with a number above 0")
        # Values of the other modes may stay in the file: a crawl may be resumed under another mode.
        for mode, name, wanted in (("thresholds", "robots", self.robots), ("auto", "modes", self.modes)):
            if mode == self.mode and wanted and max(wanted) > most:
                raise SettingsError(
                    f"`control.{name}` asks for {max(wanted)} robots, and `fetch.concurrency` is {most}",
                    "raise `fetch.concurrency`, or ask for fewer",
                )
        if self.modes and not all(self.modes):
            raise SettingsError("`control.modes` has a 0", "use numbers from 1 on")


class CostSection(Section, frozen=True):
    """Weights of the cost that `auto` minimises: the sum of these, each times its quantity."""

    loss: Annotated[float, About(kinds.NUMBER, "a page fetched and dropped because the buffer was full")] = (
        1.0
    )
    obsolete: Annotated[
        float, About(kinds.NUMBER, "a page fetched and dropped because it waited too long")
    ] = 1.0
    response: Annotated[
        float, About(kinds.NUMBER, "a second of average delay between fetching and indexing a page")
    ] = 0.1
    robots: Annotated[float, About(kinds.NUMBER, "a second of one fetch at work")] = 0.01
    starvation: Annotated[float, About(kinds.NUMBER, "a second in which the indexer has nothing to do")] = (
        100.0
    )
