"""Checks of a crawl directory that change nothing."""

from __future__ import annotations
