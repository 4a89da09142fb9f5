"""Parsing of responses: HTML, links, charset, language, sitemaps."""

from __future__ import annotations
