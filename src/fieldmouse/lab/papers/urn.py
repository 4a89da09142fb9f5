"""Experiments of the urn game of the BUbiNG thesis: every table, number in the text and figure, and more.

Anne Buijsrogge, Optimization of the BUbiNG web crawler, University of Twente, 2014. `urn_printed` holds
the printed numbers, and `urn_agreement` decides whether ours agree. `urn_games` plays each game once and
caches it. Two modules go beyond the thesis: `urn_beyond` (every policy with every law, including a
changing one) and `urn_scale` (cost at the sizes of a real crawl).
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
