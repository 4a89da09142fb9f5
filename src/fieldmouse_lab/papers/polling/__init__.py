"""The report on learning automata and bin packing, number by number."""

from __future__ import annotations
