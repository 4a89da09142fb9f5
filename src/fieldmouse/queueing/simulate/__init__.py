"""How a model fares under a rule, played out page by page.

`simulate` is the door, with intervals for what it says; `play` is the kernel under it. They share nothing
with the solvers but the model, so that each checks the other.
"""
