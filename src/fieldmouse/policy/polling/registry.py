"""Polling policies: division of a limited poll budget among pages.

From the belief about each page (`policy.change_rate`) and its own columns a policy plans a poll rate per page;
the rates sum to the budget at most. The caller spaces a page's polls evenly: that alone is worth more than
any choice of rates. Pages may have weights, and hosts may have limits.

- `learned`: the most expected freshness, and a small share for all pages alike. The default.
- `uniform`: every page the same. Hard to beat.
- `proportional`: as often as the page changes; the obvious choice, and worse than uniform.
- `automaton`: the learning automata of Yazidi (2006).
- `multiplicative`: the interval times a factor up and down, as Nutch and StormCrawler do.
- `optimal`: the most freshness if the rates were as believed (or are known, in the lab).
- `harmonic`: like `optimal`, with a penalty that starves no page.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldmouse.errors import UsageError
from fieldmouse.import_string import find_class
from fieldmouse.policy.change_rate import Beliefs
from fieldmouse.policy.polling import policies
from fieldmouse.policy.polling.allocation import PollBudget
from fieldmouse.policy.polling.interface import PollingPolicy, Reals, State
from fieldmouse.policy.polling.learned import LearnedPolicy

#: Policies by the name used in settings; each can be created without arguments.
POLICIES: dict[str, Callable[[], PollingPolicy]] = {
    "learned": LearnedPolicy,
    "uniform": policies.UniformPolicy,
    "proportional": policies.ProportionalPolicy,
    "automaton": policies.AutomatonPolicy,
    "multiplicative": policies.MultiplicativePolicy,
    "optimal": policies.OptimalPolicy,
    "harmonic": policies.HarmonicPolicy,
}


class PluginPolicy(policies.BudgetPolicy):
    """Polling policy of the user, whose results are checked; an exception becomes a `UsageError`."""

    def __init__(self, name: str, create: Callable[[], PollingPolicy]):
        self._name = name
        self._policy: PollingPolicy = self._call("__init__", create)

    @property
    def width(self) -> int:
        return self._policy.width

    def initial_state(self, pages: int) -> State:
        return self._checked_state(
            "initial_state", self._call("initial_state", self._policy.initial_state, pages), pages
        )

    def observe(self, state: State, belief: Beliefs, gap: npt.ArrayLike, changed: npt.ArrayLike) -> State:
        after = self._call("observe", self._policy.observe, state, belief, gap, changed)
        return self._checked_state("observe", after, len(state))

    def allocate_polls(self, state: State, belief: Beliefs, budget: PollBudget) -> Reals:
        limits = {"weight": budget.weight, "host": budget.host, "host_limit": budget.host_limit}
        rates = np.asarray(self._call("plan", self._policy.plan, state, belief, budget.polls, **limits), np.float64)
        if rates.shape != (len(belief),):
            raise self._error(
                "plan", f"returned the shape {rates.shape} for {len(belief)} pages", "return one rate per page"
            )
        if not (rates >= 0).all() or not np.isfinite(rates).all():
            bad = int(np.count_nonzero(~((rates >= 0) & np.isfinite(rates))))
            raise self._error(
                "plan",
                f"returned a rate below 0, or none, for {bad} of {len(rates)} pages",
                "return rates of 0 or more",
            )
        return rates

    def _checked_state(self, method: str, state: object, pages: int) -> State:
        columns = np.asarray(state, np.float32)
        if columns.shape != (pages, self.width):
            raise self._error(
                method,
                f"returned the shape {columns.shape}, not {(pages, self.width)}",
                "return `width` columns per page",
            )
        return columns

    def _call(self, method: str, function: Callable[..., Any], *arguments: object, **named: object) -> Any:
        try:
            return function(*arguments, **named)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = f"failed: {type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
            raise self._error(method, what, "correct it, and run the same command again; nothing is lost") from error

    def _error(self, method: str, what: str, hint: str) -> UsageError:
        return UsageError(f"`{method}` of the polling policy `{self._name}` {what}", hint)


class PluginPolicyStub:
    """Stand-in for a policy of the user in commands that only read: they run no code of the user.

    It keeps the columns of that policy as they are, and plans like `learned`.
    """

    def __init__(self, width: int):
        self.width, self.plan = width, LearnedPolicy().plan

    def initial_state(self, pages: int) -> State:
        return np.zeros((pages, self.width), np.float32)

    def observe(self, state: State, belief: Beliefs, gap: npt.ArrayLike, changed: npt.ArrayLike) -> State:
        return state


def create_policy(name: str) -> PollingPolicy:
    """Policy with this name and default parameters.

    >>> create_policy("uniform").width
    0
    """
    hint = "docs/guides/polling.md has an example"
    members, former = ("initial_state", "observe", "plan", "width"), {"begin": "initial_state"}
    found = find_class(name, "polling policy", POLICIES, members, hint, former)
    return found() if name in POLICIES or is_builtin(name) else PluginPolicy(name, found)


def is_builtin(name: str) -> bool:
    """Whether a policy is part of fieldmouse, so that a command that only reads may load it."""
    return name in POLICIES or name.startswith("fieldmouse.")
