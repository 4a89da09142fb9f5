"""Comparison of two versions of a page."""

from __future__ import annotations
