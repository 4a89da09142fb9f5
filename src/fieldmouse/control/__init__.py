"""Control of the number of fetch workers by the level of the page buffer.

The `pagetrace` records pages as they come and go, and its `gauge` keeps totals. The `governor` tries
numbers of fetch workers, fits a model to the trace (`tracing`, `choosing`), applies the cheapest
rule to the fetch pool, and stores predictions and results in the `controllog`.
A crawl is complete without it: without a governor the rule is fixed.
"""

from __future__ import annotations
