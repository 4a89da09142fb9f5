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
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

from fieldmouse.errors import UsageError
from fieldmouse.import_string import find_class
from fieldmouse.policy.distribution.one_place_per_host import OnePlacePerHostPolicy
from fieldmouse.policy.distribution.single_queue_policies import (
    GreedyAbsentHostsPolicy,
    MiceAndElephants,
    NeutralPolicy,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

H = TypeVar("H", bound=Hashable)


class DistributionPolicy(Protocol[H]):
    """Two questions (`next_queue_to_read`, `goes_online`) and the events from which a policy learns.

    The caller asks `next_queue_to_read` first. For a host: read some of its queue, then report `read_from_queue`
    and `came_online`. For None: draw a URL, ask `goes_online`, then report `came_online` or `added_to_queue`.
    """

    def next_queue_to_read(self, dry: bool = False) -> H | None:
        """Host whose queue should be read now, or None: draw from the source.

        `dry` means that the source is empty, so any waiting host is better than none.
        """
        ...

    def goes_online(self, host: H) -> bool:
        """Whether the drawn URL goes online; otherwise it joins its host's queue."""
        ...

    def came_online(self, host: H, balls: int = 1) -> None: ...

    def left_online(self, host: H, balls: int = 1) -> None: ...

    def added_to_queue(self, host: H, balls: int = 1) -> None: ...

    def read_from_queue(self, host: H, balls: int = 1) -> None: ...

    def address_found(self, host: H, address: Hashable) -> bool:
        """Record the address of a host; False asks for the host to be sent offline."""
        ...


@runtime_checkable
class RestingHostsPolicy(DistributionPolicy[H], Protocol[H]):
    """Policy under which hosts that rest leave their places when places are scarce.

    A host that was visited gives its URLs back to its queue, and comes online again after its delay.
    """

    def rest_started(self, host: H) -> None:
        """From now on the host is not to be read from its queue."""

    def rest_ended(self, host: H) -> None: ...


#: Policies by the name used in settings; parameters are keyword arguments with defaults.
POLICIES: dict[str, Callable[..., DistributionPolicy[Any]]] = {
    "index": OnePlacePerHostPolicy,
    "mice-and-elephants": MiceAndElephants,
    "greedy": GreedyAbsentHostsPolicy,
    "neutral": NeutralPolicy,
}

_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}
_NEVER_ZERO = ("per_address", "depth", "delta")

_HINT = "docs/guides/policy.md shows what one needs"
_MEMBERS = (
    "next_queue_to_read",
    "goes_online",
    "came_online",
    "left_online",
    "added_to_queue",
    "read_from_queue",
    "address_found",
)
#: Methods of earlier versions, and what they are called now.
_FORMER_MEMBERS = {
    "recall": "next_queue_to_read",
    "place": "goes_online",
    "stored": "added_to_queue",
    "recalled": "read_from_queue",
    "located": "address_found",
    "settled": "address_found",
}


def installed_policies() -> dict[str, EntryPoint]:
    """Policies of installed packages by name: entry points of the group `fieldmouse.distribution_policies`."""
    from importlib.metadata import entry_points  # slow to import

    return {point.name: point for point in entry_points(group="fieldmouse.distribution_policies")}


def find_policy_class(name: str) -> Callable[..., DistributionPolicy[Any]]:
    """Factory of the policy with this name; it takes keyword arguments.


    >>> find_policy_class("index") is POLICIES["index"]
    True
    """
    if name not in POLICIES and ":" not in name and (point := installed_policies().get(name)) is not None:
        return cast("Callable[..., DistributionPolicy[Any]]", point.load())
    return find_class(name, "policy", POLICIES, _MEMBERS, _HINT, _FORMER_MEMBERS)


def create_policy(name: str, parameters: Mapping[str, object]) -> DistributionPolicy[Any]:
    """Policy with this name and these parameters; an unknown parameter raises an error that lists the known
    ones.

    >>> create_policy("mice-and-elephants", {"delta": 3}).goes_online("a.example")
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
