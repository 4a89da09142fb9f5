"""Commands that read a crawl."""

from __future__ import annotations
