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
            "always `fetch.concurrency`, or fewer as the buffer fills: by your limits, or by fitted ones",
        ),
    ] = "fixed"
    robots: Annotated[
        tuple[int, ...], About(kinds.COUNTS, "thresholds: robots at work, from an empty buffer to a full one")
    ] = ()
    limits: Annotated[
        tuple[int, ...],
        About(kinds.COUNTS, "thresholds: the fullest buffer, in pages, for each of them but the last"),
    ] = ()
    modes: Annotated[
        tuple[int, ...],
        About(
            kinds.COUNTS, "auto: numbers of robots to choose from; none for a few up to `fetch.concurrency`"
        ),
    ] = ()
    every: Annotated[float, About(kinds.DURATION, "auto: time between two decisions")] = 60.0
    pages: Annotated[int, About(kinds.POSITIVE, "auto: fewest pages seen between two decisions")] = 200
    explore: Annotated[
        float, About(kinds.DURATION, "auto: how long each number of robots is tried in the beginning")
    ] = 10.0
    memory: Annotated[
        float, About(kinds.DURATION, "auto: what is longer ago is not used to predict what comes")
    ] = 1200.0
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
        found = [most]
        while len(found) < 4 and found[0] > 1:
            found.insert(0, max(1, found[0] // _STEP))
        return tuple(found)

    def check(self, most: int) -> None:
        """Raise `SettingsError` if the rule is invalid; `most` is `fetch.concurrency`."""
        if self.mode == "thresholds":
            check_rule(self.robots, self.limits, "control.")
            if self.robots[0] == 0:
                raise SettingsError("`control.robots` lets no robot work", "begin with a number above 0")
        # Values of the other modes may stay in the file: a crawl may be resumed under another mode.
        for mode, name, wanted in (("thresholds", "robots", self.robots), ("auto", "modes", self.modes)):
            if mode == self.mode and wanted and max(wanted) > most:
                raise SettingsError(
                    f"`control.{name}` asks for {max(wanted)} robots, and `fetch.concurrency` is {most}",
                    "raise `fetch.concurrency`, or ask for fewer",
                )
        if self.modes and not all(self.modes):
            raise SettingsError("`control.modes` has a 0", "name numbers of robots from 1 on")


class CostSection(Section, frozen=True):
    """Weights of the cost that `auto` minimises: the sum of these, each times its quantity."""

    loss: Annotated[float, About(kinds.NUMBER, "a page fetched and dropped because the buffer was full")] = (
        1.0
    )
    obsolete: Annotated[
        float, About(kinds.NUMBER, "a page fetched and dropped because it waited too long")
    ] = 1.0
    response: Annotated[
        float, About(kinds.NUMBER, "a second, on average, between a page's arrival and its being indexed")
    ] = 0.1
    robots: Annotated[float, About(kinds.NUMBER, "a robot at work, for a second")] = 0.01
    starvation: Annotated[float, About(kinds.NUMBER, "a second in which the indexer has nothing to do")] = (
        100.0
    )
