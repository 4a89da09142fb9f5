"""Test doubles for plug-in authors: virtual time, faults, a coordinator in memory, a synthetic web."""

from __future__ import annotations
