"""Control of the number of fetch workers by the level of the page buffer.

`BufferTrace` records pages as they come and go, and its `BufferTotalsCounter` keeps totals. The `Governor` estimates
rates from them and computes the cheapest rule (`cheapest_rule`), applies it to the fetch pool, and stores
predictions and results in the `ControlLog`. `fit_input` makes the input of a model fit.
A crawl is complete without it: without a governor the rule is fixed.
"""

from __future__ import annotations
