"""Set of seen URLs on disk."""

from __future__ import annotations
