"""The paper on threshold control of robots: tables, figures and numbers in its text."""

from __future__ import annotations
