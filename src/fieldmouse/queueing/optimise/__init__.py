"""Which rule costs least.

`optimum` is the door. It looks over all rules at once where it can (`landscape`, which shares its work by
`reduction`), and walks downhill where it cannot (`search`; `descent`, by simulation). `decision` says what
the best rule of any kind would cost, which no rule by level can beat.
"""
