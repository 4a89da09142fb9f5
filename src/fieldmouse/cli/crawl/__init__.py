"""Commands that crawl."""

from __future__ import annotations
