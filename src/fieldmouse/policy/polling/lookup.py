"""Lookup of a polling policy by its name or import path."""

from __future__ import annotations

import inspect
from typing import cast

from fieldmouse.errors import UsageError
from fieldmouse.named import NAME, load
from fieldmouse.policy.polling import POLICIES, PollingPolicy

_ASKED = ("begin", "observe", "plan", "width")


def policy(name: str) -> PollingPolicy:
    """Policy with this name and default parameters.

    >>> policy("uniform").width
    0
    """
    ours = POLICIES.get(name)
    if ours is not None:
        return ours()
    if not NAME.fullmatch(name):
        raise UsageError(
            f"there is no polling policy `{name}`",
            f"it is one of {', '.join(POLICIES)}, or `package.module:Class` for one of your own",
        )
    made: object = load(name, "polling policy")
    missing = [question for question in _ASKED if not hasattr(made, question)]
    if not inspect.isclass(made) or missing:
        lacks = f"has no `{missing[0]}`" if inspect.isclass(made) else "is no class"
        raise UsageError(
            f"`{name}` is no polling policy: it {lacks}",
            "`fieldmouse.policy.polling.PollingPolicy` says what one needs",
        )
    return cast(PollingPolicy, made())
