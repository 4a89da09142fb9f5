"""The urn game of the BUbiNG thesis: every table, every number in the prose, every figure, and more.

Anne Buijsrogge, Optimization of the BUbiNG web crawler, University of Twente, 2014.
`urn_printed` holds what was printed and `urn_agreement` says when a number is ours;
`urn_games` plays each game once for all who look at it. What goes beyond the thesis
is in `urn_beyond` (every policy over every law, also a changing one) and `urn_scale`
(what it costs at the sizes of a real crawl).
"""

from __future__ import annotations

from fieldmouse.lab.papers import (
    urn_beyond,
    urn_neutral_figures,
    urn_offline_figures,
    urn_prose,
    urn_scale,
    urn_tables,
)  # fmt: skip

EXPERIMENTS = (
    *urn_tables.EXPERIMENTS,
    *urn_prose.EXPERIMENTS,
    *urn_neutral_figures.EXPERIMENTS,
    *urn_offline_figures.EXPERIMENTS,
    *urn_beyond.EXPERIMENTS,
    *urn_scale.EXPERIMENTS,
)
