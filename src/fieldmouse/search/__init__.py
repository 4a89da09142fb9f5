"""Full-text index and search."""

from __future__ import annotations
