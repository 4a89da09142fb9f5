"""Signs of life that a board has heard, by which an agent knows an old copy of its data.

An agent forgets what it told when that is safe (`tellings`): when the board has heard a later sign of life,
long ago. A board that never heard that one knows less than its agent takes for granted: its server was given
an old copy of its data. Nobody but an agent raises the number of its signs, so that what others do on the
old copy meanwhile hides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heard:
    """Which sign of life it was, of which start of which agent; of nobody, every board has heard it."""

    agent: str = ""
    incarnation: int = 0
    number: int = 0


ANY = Heard()
"""Every board has heard this."""
