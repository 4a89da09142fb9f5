"""Distribution policies: which URL goes online next, and which waits offline.

The frontier is an urn game. URLs are balls and hosts are colours; they come out of the sieve in arbitrary
order. Online places are few, and fetch workers use one URL of each host at a time, so the number of
*different* hosts online counts. All other URLs wait offline, in a queue per host.

A distribution policy answers two questions and receives four events. The lab plays it with colours as
integers, the live distributor with host numbers, and replay with those of a recorded crawl; the answers
must not depend on this.

- `neutral`: every drawn URL goes online; the reference without an offline side.
- `greedy`: only hosts absent online are accepted (Buijsrogge 2014, Algorithm 4).
- `mice-and-elephants`: hosts that crowd the front wait offline (Algorithm 12).
- `index`: hosts with a backlog and nothing online come first, and the source is
  drawn only when there is none. It keeps every place for a different host.

A policy is named in settings by its name in `POLICIES` or by an import path such as
`my_mice.choosy:Choosy`; an imported object must be a class with all methods of the interface.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeVar

from fieldmouse.errors import UsageError
from fieldmouse.import_string import find_class
from fieldmouse.policy.distribution.distinct_hosts import DistinctHostsPolicy
from fieldmouse.policy.distribution.strategies import GreedyPolicy, MiceAndElephants, NeutralPolicy

H = TypeVar("H", bound=Hashable)


class DistributionPolicy(Protocol[H]):
    """Two questions (`recall`, `place`) and the events from which a policy learns.

    The caller asks `recall()` first. For a host: read some of its queue, then report `recalled` and
    `came_online`. For None: draw a URL, ask `place`, then report `came_online` or `stored`.
    """

    def recall(self, dry: bool = False) -> H | None:
        """Host whose queue should be read now, or None: draw from the source.

        `dry` means that the source is empty, so any waiting host is better than none.
        """
        ...

    def place(self, host: H) -> bool:
        """Whether the drawn URL goes online; otherwise it joins its host's queue."""
        ...

    def came_online(self, host: H, balls: int = 1) -> None: ...

    def left_online(self, host: H, balls: int = 1) -> None: ...

    def stored(self, host: H, balls: int = 1) -> None: ...

    def recalled(self, host: H, balls: int = 1) -> None: ...

    def located(self, host: H, address: Hashable) -> bool:
        """Record the address of a host; False asks for the host to be sent offline."""
        ...


#: Policies by the name used in settings; parameters are keyword arguments with defaults.
POLICIES: dict[str, Callable[..., DistributionPolicy[Any]]] = {
    "index": DistinctHostsPolicy,
    "mice-and-elephants": MiceAndElephants,
    "greedy": GreedyPolicy,
    "neutral": NeutralPolicy,
}

_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}
_NEVER_ZERO = ("per_address", "depth", "delta")

_MEMBERS = ("recall", "place", "came_online", "left_online", "stored", "recalled", "located")


def find_policy_class(name: str) -> Callable[..., DistributionPolicy[Any]]:
    """Factory of the policy with this name; it takes keyword arguments.

    >>> find_policy_class("index") is POLICIES["index"]
    True
    """
    made = find_class(name, "policy", POLICIES, _MEMBERS, "docs/guides/policy.md shows what one needs")
    if hasattr(made, "settled"):
        # The event's former name; a policy that still overrides it would never be called.
        raise UsageError(f"`{name}` has `settled`, which nobody calls", "call it `located`")
    return made


def create_policy(name: str, parameters: Mapping[str, object]) -> DistributionPolicy[Any]:
    """Policy with this name and these parameters; an unknown parameter raises an error that lists the known
    ones.

    >>> create_policy("mice-and-elephants", {"delta": 3}).place("a.example")
    True
    """
    make = find_policy_class(name)
    known = inspect.signature(make).parameters
    for key in parameters:
        if key not in known:
            knows = f"it knows {', '.join(known)}" if known else "it has none"
            raise UsageError(f"the policy `{name}` has no parameter `{key}`", knows)
    check_parameters(name, parameters)
    return make(**parameters)


def check_parameters(name: str, parameters: Mapping[str, object]) -> None:
    """Check that parameters have the type of their defaults and, for built-in policies, a valid range.

    >>> check_parameters("index", {"depth": 16})
    """
    known = inspect.signature(find_policy_class(name)).parameters
    for key, value in parameters.items():
        usual = known[key].default
        kind = type(usual)
        if kind not in _KINDS:
            continue
        fits = isinstance(value, int | float) if kind is float else type(value) is kind
        if not fits or (kind is float and isinstance(value, bool)):
            raise UsageError(
                f"`{key}` of the policy `{name}` is {_KINDS[kind]}, and `{value}` is none",
                f"give one such as {str(usual).lower() if kind is bool else usual}",
            )
        least = 1 if key in _NEVER_ZERO else 0
        if name in POLICIES and isinstance(value, int | float) and not value >= least:
            raise UsageError(
                f"`{key}` of the policy `{name}` cannot be {value}", f"give {least} or more; usual is {usual}"
            )
