"""robots.txt by RFC 9309: parser, rules and cache."""

from __future__ import annotations
