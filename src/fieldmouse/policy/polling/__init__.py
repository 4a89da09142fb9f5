"""Policies that spread a budget of polls over pages."""

from __future__ import annotations
