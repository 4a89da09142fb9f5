"""Checks and repairs of a crawl directory."""

from __future__ import annotations
