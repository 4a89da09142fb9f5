"""Control of the number of fetch workers by the level of the page buffer.

`BufferTrace` records pages as they come and go, and its `BufferTotalsCounter` keeps totals. The `Governor` tries
numbers of fetch workers, fits a model to the trace (`threshold_optimiser`), applies the cheapest rule to the fetch
pool, and stores predictions and results in the `ControlLog`.
A crawl is complete without it: without a governor the rule is fixed.
"""

from __future__ import annotations
