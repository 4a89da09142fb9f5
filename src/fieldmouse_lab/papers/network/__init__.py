"""The thesis on KALMAN-BLAWLB: its tables and levels."""

from __future__ import annotations
