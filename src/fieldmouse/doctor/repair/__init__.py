"""Repairs of a crawl directory from the data that is left."""

from __future__ import annotations
