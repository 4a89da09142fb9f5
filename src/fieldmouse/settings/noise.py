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
        About(kinds.NOISE_RULES, "parts neither compared nor shown: where, css, xpath or regex, and what"),
    ] = ()
    only: Annotated[
        tuple[str, ...],
        About(kinds.NOISE_RULES, "compare only the parts that match, on sites with such a rule"),
    ] = ()
    learn: Annotated[
        bool,
        About(kinds.FLAG, "ignore parts that differ on three polls in a row; turn off for prices"),
    ] = True
