"""Experiments of "Optimal threshold control by the robots of web search engines" (Avrachenkov et al. 2011).

Five tables, four figures and the numbers of the text are computed with the solver and the rule that also
control a live crawl. Beyond the paper: the gap between thresholds and the best policy of any kind.
"""

from __future__ import annotations

from fieldmouse.lab.papers import (
    thresholds_figures,
    thresholds_numbers,
    thresholds_policy,
    thresholds_tables,
)

EXPERIMENTS = (
    *thresholds_tables.EXPERIMENTS,
    *thresholds_figures.EXPERIMENTS,
    *thresholds_numbers.EXPERIMENTS,
    *thresholds_policy.EXPERIMENTS,
)
