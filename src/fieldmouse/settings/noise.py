"""What of a page is compared when it was asked for again: see docs/changes.md."""

from __future__ import annotations

from typing import Annotated

from fieldmouse.settings import kinds
from fieldmouse.settings.kinds import About
from fieldmouse.settings.sections import Section


class NoiseSection(Section, frozen=True):
    """What of a page is no news."""

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
