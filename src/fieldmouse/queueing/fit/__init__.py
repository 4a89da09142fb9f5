"""Model fit from the trace of a crawl's buffer.

`fit` is the entry point. A `Trace` is split by mode (`split_arrivals_by_mode`). Arrivals are fitted mode by mode
(`fit_mode`), or together where modes alternate quickly (`fit_modes_jointly`), and extrapolated for unseen
modes; `map_fit` fits them by moments and by likelihood. Service and lifetime are fitted by `phase_type_fit`.
`goodness` says how far to trust the result.
"""

from __future__ import annotations
