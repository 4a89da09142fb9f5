"""Optimal threshold control by the robots of web search engines (Avrachenkov et al. 2011), number by number.

Five tables, four figures and the numbers of the text, computed with the solver and the
rule that also govern a live crawl; and, beyond the paper, how near thresholds come to
the best policy of all.
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
