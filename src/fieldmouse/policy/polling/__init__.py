"""How many polls each page gets, out of a budget that is too small for all.

A policy plans: from what is believed of each page (`policy.change`) and from columns of its own
it makes polls per time unit, a number a page, that sum to the budget at most. Whoever
obeys it spaces a page's polls evenly: that alone is worth more than any choice of rates.
Pages may weigh more or less, and hosts may bear no more than so many polls.

- `uniform`: every page the same. The opponent that is hard to beat.
- `proportional`: as often as it changes; what everybody thinks of first, and worse than uniform.
"""

from __future__ import annotations

from collections.abc import Callable

from fieldmouse.policy.polling.interface import PollingPolicy, State
from fieldmouse.policy.polling.proportional import Proportional
from fieldmouse.policy.polling.uniform import Uniform

__all__ = ["POLICIES", "PollingPolicy", "Proportional", "State", "Uniform"]

POLICIES: dict[str, Callable[[], PollingPolicy]] = {"uniform": Uniform, "proportional": Proportional}
"""Every policy by the name a setting calls it; made without arguments it is as it comes."""
