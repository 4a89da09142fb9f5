"""Commands of the lab: `lab` and `model`."""

from __future__ import annotations
