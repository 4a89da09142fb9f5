"""How many polls each page gets, out of a budget that is too small for all.

A policy plans: from what is believed of each page (`policy.change`) and from columns of its own
it makes polls per time unit, a number a page, that sum to the budget at most. Whoever
obeys it spaces a page's polls evenly: that alone is worth more than any choice of rates.
Pages may weigh more or less, and hosts may bear no more than so many polls.

- `learned`: the most freshness by what is believed, and a small share for all alike. The default.
- `uniform`: every page the same. The opponent that is hard to beat.
- `proportional`: as often as it changes; what everybody thinks of first, and worse than uniform.
- `automaton`: the learning automata of Yazidi (2006).
- `multiplicative`: the interval times a factor up and down, as Nutch and StormCrawler do.
- `optimal`: the most freshness if the rates were as believed (or are known, in the lab).
- `harmonic`: as `optimal`, with a penalty that starves no page.
"""

from __future__ import annotations

from collections.abc import Callable

from fieldmouse.policy.polling.automaton import Automaton
from fieldmouse.policy.polling.harmonic import Harmonic
from fieldmouse.policy.polling.interface import PollingPolicy, State
from fieldmouse.policy.polling.learned import Learned
from fieldmouse.policy.polling.multiplicative import Multiplicative
from fieldmouse.policy.polling.optimal import Optimal
from fieldmouse.policy.polling.proportional import Proportional
from fieldmouse.policy.polling.uniform import Uniform

__all__ = [
    "POLICIES", "Automaton", "Harmonic", "Learned", "Multiplicative", "Optimal", "PollingPolicy",
    "Proportional", "State", "Uniform",
]  # fmt: skip

POLICIES: dict[str, Callable[[], PollingPolicy]] = {
    "learned": Learned,
    "uniform": Uniform,
    "proportional": Proportional,
    "automaton": Automaton,
    "multiplicative": Multiplicative,
    "optimal": Optimal,
    "harmonic": Harmonic,
}
"""Every policy by the name a setting calls it; made without arguments it is as it comes."""
