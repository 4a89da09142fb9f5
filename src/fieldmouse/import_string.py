"""Imports by name (`package.module:name`) for the user's own code.

A name stands in `fieldmouse.toml`, so a later resume finds it, and it can be sent to worker processes,
where a function could not. `import_object` imports the object of a name; `import_name_of` gives the name of
an object passed in Python. A module is searched on Python's path first, then in the current directory,
which therefore never hides an installed module.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from fieldmouse.errors import UsageError

C = TypeVar("C")

#: Pattern of an importable name.
IMPORT_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


#: Former and present module and class of each policy, by package.
_POLICIES = {
    "distribution": "neutral.Neutral single_queue_policies.NeutralPolicy"
    " greedy.Greedy single_queue_policies.GreedyAbsentHostsPolicy"
    " mice.MiceAndElephants single_queue_policies.MiceAndElephants"
    " index.Index one_place_per_host.OnePlacePerHostPolicy",
    "polling": "automaton.Automaton policies.AutomatonPolicy harmonic.Harmonic policies.HarmonicPolicy"
    " learned.Learned learned.LearnedPolicy multiplicative.Multiplicative policies.MultiplicativePolicy"
    " optimal.Optimal policies.OptimalPolicy proportional.Proportional policies.ProportionalPolicy"
    " uniform.Uniform policies.UniformPolicy",
}


def _present_names() -> dict[str, str]:
    moved = {}
    for package, pairs in _POLICIES.items():
        words = [word.split(".") for word in pairs.split()]
        for (module, name), (new_module, new_name) in zip(words[::2], words[1::2], strict=True):
            place = f"fieldmouse.policy.{package}.{new_module}:{new_name}"
            moved[f"fieldmouse.policy.{package}.{module}:{name}"] = place
            moved[f"fieldmouse.policy.{package}:{name}"] = place
    return moved


#: Present names of policies that a crawl's settings may name by a former one.
MOVED = _present_names()


def import_object(name: str, what: str, path: Sequence[str] = ()) -> Any:
    """Import the object of that name; `what` describes it in error messages.

    `path` is the `import_path` of the process that gave the name, if that is another process.

    >>> import_object("posixpath:join", "function").__name__
    'join'
    """
    if not IMPORT_NAME.fullmatch(name):
        raise UsageError(f"the {what} `{name}` is no name that can be imported", "write it as `package.module:name`")
    module, _, attribute = MOVED.get(name, name).partition(":")
    _extend_path(path or (os.getcwd(),))
    importlib.invalidate_caches()  # the module may be newer than the cached directory listing
    try:
        loaded = importlib.import_module(module)
    except BaseException as error:  # an imported module may raise anything, `SystemExit` included
        if isinstance(error, KeyboardInterrupt):
            raise
        raise _import_error(name, what, module, error) from error
    if not hasattr(loaded, attribute):
        raise UsageError(
            f"the {what} `{name}` is not there: `{module}` has no `{attribute}`",
            f"look for it in `{getattr(loaded, '__file__', None) or module}`",
        )
    return getattr(loaded, attribute)


def import_callable(name: str, what: str, path: Sequence[str] = ()) -> Any:
    """Import an object that will be called with one argument."""
    function = import_object(name, what, path)
    if not callable(function):
        raise UsageError(
            f"the {what} `{name}` cannot be called: it is of type `{type(function).__name__}`",
            "name a function, or a class that takes one argument",
        )
    return function


def find_class(
    name: str, what: str, known: Mapping[str, C], members: Sequence[str], hint: str, former: Mapping[str, str]
) -> C:
    """Class of that name in `known`, or the imported one, which must have these members; `hint` says where they
    are described. A class with a method by a former name, a key of `former`, is refused: nothing would call it."""
    if name in known:
        return known[name]
    if not IMPORT_NAME.fullmatch(name):
        raise UsageError(
            f"there is no {what} `{name}`",
            f"it is one of {', '.join(known)}, or `package.module:Class` for one of your own",
        )
    made = import_object(name, what)
    for old, new in former.items():
        if isinstance(made, type) and hasattr(made, old):
            raise UsageError(f"`{name}` has a method `{old}`, which is now called `{new}`", "rename it in your class")
    missing = [member for member in members if not hasattr(made, member)]
    if not isinstance(made, type) or missing:
        lacks = f"has no `{missing[0]}`" if isinstance(made, type) else "is no class"
        raise UsageError(f"`{name}` is no {what}: it {lacks}", hint)
    return cast(C, made)


def import_path() -> tuple[str, ...]:
    """Import path of this process, for processes that must find the same modules."""
    here = os.getcwd()
    entries = [entry or here for entry in sys.path]
    return tuple(dict.fromkeys((*entries, here)))


def _extend_path(path: Sequence[str]) -> None:
    """Append directories to the import path, after those that are on it."""
    sys.path.extend(entry for entry in path if entry not in sys.path)


def _import_error(name: str, what: str, module: str, error: BaseException) -> UsageError:
    why = str(error).strip() or "no message"
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        return UsageError(
            f"the {what} `{name}` cannot be imported: {why}",
            f"install the package that has `{module}` where fieldmouse is installed,"
            " or start from the directory that holds it",
        )
    return UsageError(
        f"the {what} `{name}` cannot be imported: {type(error).__name__}: {why[:300]}",
        f"try `python -c 'import {module}'`",
    )


def import_name_of(thing: object, what: str) -> str:
    """The name by which another process and a later resume import the same object.

    >>> import_name_of(os.path.join, "extract")
    'posixpath:join'
    """
    module, attribute = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if isinstance(thing, str):
        return thing
    if not callable(thing):
        raise UsageError(
            f"`{what}` is {thing!r}, which cannot be called"[:300],
            "give a function, or its name as `package.module:name`",
        )
    if module == "__main__":
        raise UsageError(
            f"`{what}` is `{attribute}` of the script or notebook that is running: workers cannot import it",
            "put it into a module beside it, and import it from there",
        )
    name = f"{module}:{attribute}"
    if not module or not IMPORT_NAME.fullmatch(name) or getattr(sys.modules.get(module), attribute, None) is not thing:
        shown = attribute or type(thing).__name__
        raise UsageError(
            f"`{what}` is `{shown}`, which has no name to import it by, and workers are other processes",
            "define it with `def` at the top of a module, not inside a function or as a lambda",
        )
    return name
