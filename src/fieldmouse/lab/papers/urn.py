"""Experiments of the urn game of the BUbiNG thesis: every table, number in the text and figure, and more.

Anne Buijsrogge, Optimization of the BUbiNG web crawler, University of Twente, 2014. `urn_printed` holds
the printed numbers, and `urn_agreement` decides whether ours agree. `urn_games` plays each game once and
caches it. Two modules go beyond the thesis: `urn_beyond` (every policy with every law, including a
changing one) and `urn_scale` (cost at the sizes of a real crawl).
"""

from __future__ import annotations

from fieldmouse.lab.papers import urn_beyond as beyond
from fieldmouse.lab.papers import urn_neutral_figures as neutral_figures
from fieldmouse.lab.papers import urn_offline_figures as offline_figures
from fieldmouse.lab.papers import urn_prose as prose
from fieldmouse.lab.papers import urn_scale as scale
from fieldmouse.lab.papers import urn_tables as tables

_MODULES = (tables, prose, neutral_figures, offline_figures, beyond, scale)
EXPERIMENTS = tuple(experiment for module in _MODULES for experiment in module.EXPERIMENTS)
