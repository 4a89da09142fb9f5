"""Lookup of a distribution policy by its name or import path.

`"index"` is in `POLICIES`; `"my_mice.choosy:Choosy"` is the class `Choosy` of an installed module. An
imported object is checked before it is called: it must be a class with all methods of `Distribution`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from fieldmouse.errors import UsageError
from fieldmouse.named import NAME, load
from fieldmouse.policy.distribution import POLICIES, Distribution

_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}
_NEVER_ZERO = ("per_address", "depth", "delta")

_ASKED = ("recall", "place", "came_online", "left_online", "stored", "recalled", "located")


def strategy(name: str) -> Callable[..., Distribution[Any]]:
    """Factory of the policy with this name; it takes keyword arguments.

    >>> strategy("index") is POLICIES["index"]
    True
    """
    found = POLICIES.get(name)
    if found is not None:
        return found
    if not NAME.fullmatch(name):
        raise UsageError(
            f"there is no policy `{name}`",
            f"it is one of {', '.join(POLICIES)}, or `package.module:Class` for one of your own",
        )
    made: object = load(name, "policy")
    missing = [question for question in _ASKED if not callable(getattr(made, question, None))]
    if not inspect.isclass(made) or missing:
        lacks = f"has no `{missing[0]}`" if inspect.isclass(made) else "is no class"
        raise UsageError(f"`{name}` is no policy: it {lacks}", "docs/guides/policy.md shows what one needs")
    if hasattr(made, "settled"):
        # The event's former name; a policy that still overrides it would never be called.
        raise UsageError(f"`{name}` has `settled`, which nobody calls", "call it `located`")
    return cast(Callable[..., Distribution[Any]], made)


def policy(name: str, parameters: Mapping[str, object]) -> Distribution[Any]:
    """Policy with this name and these parameters; an unknown parameter raises an error that lists the known
    ones.

    >>> policy("mice-and-elephants", {"delta": 3}).place("a.example")
    True
    """
    make = strategy(name)
    known = inspect.signature(make).parameters
    for key in parameters:
        if key not in known:
            knows = f"it knows {', '.join(known)}" if known else "it has none"
            raise UsageError(f"the policy `{name}` has no parameter `{key}`", knows)
    check(name, parameters)
    return make(**parameters)


def check(name: str, parameters: Mapping[str, object]) -> None:
    """Check that parameters have the type of their defaults and, for built-in policies, a valid range.

    >>> check("index", {"depth": 16})
    """
    known = inspect.signature(strategy(name)).parameters
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
