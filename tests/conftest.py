"""What holds for all tests: none fails because the machine was busy, or because of the dice.

Properties are tried on the same examples each time, so that a red run can be run
again. With FIELDMOUSE_EXPLORE set, they are tried on new ones: do so when you have
time to look at what it finds.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("patient", deadline=None, derandomize="FIELDMOUSE_EXPLORE" not in os.environ)
settings.load_profile("patient")
