"""Records that pass between the stages of a crawl."""

from __future__ import annotations
