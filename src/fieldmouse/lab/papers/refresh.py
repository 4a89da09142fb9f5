"""Experiments of the report on learning automata and bin packing.

Anis Yazidi, Solving the bin packing problem, Agder University College, 2006. `refresh_printed` holds the
printed numbers, and `refresh_agreement` decides whether ours agree. `refresh_games` plays each game once
and caches it, with the automata and the packing of the crawler.
"""

from __future__ import annotations

from fieldmouse.lab.papers import (
    refresh_measures,
    refresh_packing,
    refresh_policies,
    refresh_tests,
    refresh_zipf,
)

EXPERIMENTS = (
    *refresh_tests.EXPERIMENTS,
    *refresh_measures.EXPERIMENTS,
    *refresh_zipf.EXPERIMENTS,
    *refresh_packing.EXPERIMENTS,
    *refresh_policies.EXPERIMENTS,
)
