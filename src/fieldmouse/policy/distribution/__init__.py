"""Policies that choose the hosts that are online."""

from __future__ import annotations
