"""Search for the rule with the least cost.

`best_thresholds` is the entry point. It solves every rule where possible (`evaluated_rules`), and
searches locally otherwise (`search_downhill`; by simulation, `optimise_by_simulation`). `policy_iteration`
computes the cost of the best rule of any kind, a lower bound for all rules by level.
"""

from __future__ import annotations
