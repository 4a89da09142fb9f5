"""How many robots work: what the buffer did is written down, measured, fitted, and a rule is chosen.

The `pagetrace` watches pages come and go, and its `gauge` keeps totals. The `governor` tries
numbers of robots, has a model fitted to what the trace shows (`tracing`, `choosing`), has the fleet
obey the cheapest rule, and writes in the `controllog` what was expected and what came of it.
Nothing here is needed for a crawl to be whole: without a governor the rule is set for good.
"""
