"""From what a crawl saw of its own buffer to a model of it.

`fit` is the door. A `trace` becomes `intervals`, mode by mode; arrivals are fitted by `modefit`, by
`jointfit` where modes take turns quickly, and made up for modes nobody saw by `arrivalfit` (`mapfit` by
moments, `mapem` by likelihood); service and lifetime by `phfit` (`hypererlang`, `phem`). `goodness` says how
far to trust the result.
"""
