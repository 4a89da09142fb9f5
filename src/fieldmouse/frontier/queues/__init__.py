"""Queues of waiting URLs, one for each host, on disk."""

from __future__ import annotations
