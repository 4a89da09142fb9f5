"""How a model fares under a rule, computed exactly.

`solve` is the door. It takes `banded` where lifetimes forget, and where they do not `ordered` (with
`dense`, its oracle for small systems, and `coordinates`, which keep it small). `stationary` reduces
chains; `journey` and `wayfarer` follow one page, and `sojourn` makes whole laws of its stay.
"""
