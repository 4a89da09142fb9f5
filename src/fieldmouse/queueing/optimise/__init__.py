"""Search for the rule with the least cost.

`optimum` is the entry point. It evaluates all rules at once where possible (`evaluate_all_rules`), and
searches locally otherwise (`search_downhill`; by simulation, `optimise_by_simulation`). `policy_iteration`
computes the cost of the best rule of any kind, a lower bound for all rules by level.
"""

from __future__ import annotations
