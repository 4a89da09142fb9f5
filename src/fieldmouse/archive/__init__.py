"""WARC files, their CDXJ index, and deduplication."""

from __future__ import annotations
