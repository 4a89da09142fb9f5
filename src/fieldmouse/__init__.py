"""fieldmouse: a polite web crawler whose every decision is a policy you can solve, simulate and live with."""

from __future__ import annotations

__version__ = "0.1.0"
