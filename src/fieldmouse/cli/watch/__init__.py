"""Commands that watch pages for changes."""

from __future__ import annotations
