"""Learning automata and bin packing: every number of the report, the exact law behind it, and what is better.

Anis Yazidi, Solving the bin packing problem, Agder University College, 2006. `refresh_printed` holds what
was printed and `refresh_agreement` says when a number is ours; `refresh_games` plays each
game once for all who look at it, with the automata and the packing that the crawler has too.
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
