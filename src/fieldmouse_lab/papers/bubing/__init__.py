"""The urn game of the BUbiNG thesis: tables, figures and numbers in its text."""

from __future__ import annotations
