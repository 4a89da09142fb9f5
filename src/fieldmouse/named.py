"""Somebody's own code by its name: `package.module:name`, loaded in one way wherever a name is understood.

A name stands in `fieldmouse.toml`, so a later resume knows it, and it travels to the
worker processes, where a function could not. `load` turns it into the thing itself,
`name_of` is the way back for objects given in Python. A module is looked for where
Python looks, and then in the current directory, which never hides anything
that is installed.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from fieldmouse.errors import UsageError

NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
"""The shape of a name that says where to import from."""


def load(name: str, what: str, path: Sequence[str] = ()) -> Any:
    """The thing of that name; `what` it is meant to be, for the sentence if it is not there.

    `path` is where whoever gave the name looks for modules (`search_path`), if that is another process.

    >>> load("posixpath:join", "function").__name__
    'join'
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"the {what} `{name}` is no name that can be imported",
            "write it as `package.module:name`",
        )
    module, _, attribute = name.partition(":")
    _widen(path or (os.getcwd(),))
    importlib.invalidate_caches()  # the module may be younger than our last look at its directory
    try:
        found = importlib.import_module(module)
    except BaseException as trouble:  # whatever a module does when it is imported, `sys.exit()` included
        if isinstance(trouble, KeyboardInterrupt):
            raise
        raise _not_imported(name, what, module, trouble) from trouble
    if not hasattr(found, attribute):
        raise UsageError(
            f"the {what} `{name}` is not there: `{module}` has no `{attribute}`",
            f"look for it in `{getattr(found, '__file__', None) or module}`",
        )
    return getattr(found, attribute)


def load_function(name: str, what: str, path: Sequence[str] = ()) -> Any:
    """The same for what will be called with one argument."""
    found = load(name, what, path)
    if not callable(found):
        raise UsageError(
            f"the {what} `{name}` cannot be called: it is of type `{type(found).__name__}`",
            "name a function, or a class whose instances are made of one argument",
        )
    return found


def search_path() -> tuple[str, ...]:
    """Where modules are looked for in this process, for others that shall find the same."""
    here = os.getcwd()
    known = [entry or here for entry in sys.path]
    return tuple(dict.fromkeys((*known, here)))


def _widen(path: Sequence[str]) -> None:
    """Look there, too, after all places where modules are looked for already."""
    sys.path.extend(entry for entry in path if entry not in sys.path)


def _not_imported(name: str, what: str, module: str, trouble: BaseException) -> UsageError:
    why = str(trouble).strip() or "without a word"
    if (
        isinstance(trouble, ModuleNotFoundError)
        and trouble.name
        and f"{module}.".startswith(f"{trouble.name}.")
    ):
        return UsageError(
            f"the {what} `{name}` cannot be imported: {why}",
            f"install the package that has `{module}` where fieldmouse is installed,"
            " or start from the directory that holds it",
        )
    return UsageError(
        f"the {what} `{name}` cannot be imported: {type(trouble).__name__}: {why[:300]}",
        f"try `python -c 'import {module}'`",
    )


def name_of(thing: object, what: str) -> str:
    """The name by which another process and a later resume find the same thing.

    >>> name_of(os.path.join, "extract")
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
    if (
        not module
        or not NAME.fullmatch(name)
        or getattr(sys.modules.get(module), attribute, None) is not thing
    ):
        shown = attribute or type(thing).__name__
        raise UsageError(
            f"`{what}` is `{shown}`, which has no name to import it by, and workers are other processes",
            "define it with `def` at the top of a module, not inside a function or as a lambda",
        )
    return name
