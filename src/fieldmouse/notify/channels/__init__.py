"""Channels that deliver notifications."""

from __future__ import annotations
