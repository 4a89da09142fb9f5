"""Section `[noise]`: parts of a page that do not count as a change (see docs/changes.md)."""

from __future__ import annotations

from typing import Annotated

from fieldmouse.settings import kinds
from fieldmouse.settings.kinds import About
from fieldmouse.settings.sections import Section


class NoiseSection(Section, frozen=True):
    """Parts of a page that do not count as a change."""

    ignore: Annotated[
        tuple[str, ...],
        About(kinds.NOISE_RULES, "parts neither compared nor told: where, css, xpath or regex, and what"),
    ] = ()
    only: Annotated[
        tuple[str, ...],
        About(kinds.NOISE_RULES, "where one of these applies, nothing but what it finds is compared"),
    ] = ()
    learn: Annotated[
        bool,
        About(kinds.FLAG, "what differs on three polls running is noise; turn off for prices"),
    ] = True
