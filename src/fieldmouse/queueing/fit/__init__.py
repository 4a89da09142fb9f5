"""Model fit from the trace of a crawl's buffer.

`fit` is the entry point. A `trace` becomes `intervals`, mode by mode; arrivals are fitted by `modefit`, by
`jointfit` where modes alternate quickly, and extrapolated for unseen modes by `arrivalfit` (`mapfit` by
moments, `mapem` by likelihood); service and lifetime by `phfit` (`hypererlang`, `phem`). `goodness` says
how
far to trust the result.
"""

from __future__ import annotations
