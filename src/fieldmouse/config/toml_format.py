"""Reader and writer of settings files, with helpful errors.

The structs in `sections` are the only list of settings. Their annotations say how each value is read and
written, so there is no second list to keep in step.
"""

from __future__ import annotations

import difflib
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec

from fieldmouse.config.sections import Section
from fieldmouse.config.values import Setting, ValueKind
from fieldmouse.errors import SettingsError, UsageError

S = TypeVar("S", bound=Section)

MISTAKEN_NAMES = {
    "crawl.user_agent": "the user agent is composed of `product` and `contact`",
    "crawl.delay": "it is `politeness.delay`",
    "crawl.depth": "it is `crawl.max_depth`",
    "politeness.robots_txt": "it is `politeness.obey_robots_txt`",
}
"""Hints for names that users try and that are spelt otherwise."""


@cache
def keys_of(section: type[Section]) -> dict[str, Setting]:
    """Kind and purpose of each key of a section, in the order of the file."""
    hints = get_type_hints(section, include_extras=True)
    return {
        name: next(note for note in hints[name].__metadata__ if isinstance(note, Setting))
        for name in section.__struct_fields__
    }


def sections_of(settings: type[msgspec.Struct]) -> dict[str, type[Section]]:
    hints = get_type_hints(settings)
    return {name: hints[name] for name in settings.__struct_fields__}


def split_name(settings: type[msgspec.Struct], dotted: str) -> tuple[str, str]:
    """Section and key of a name such as `politeness.delay`; an unknown name raises `SettingsError`."""
    section, dot, key = dotted.partition(".")
    known = sections_of(settings)
    if dotted in known:
        within = ", ".join(f"`{dotted}.{name}`" for name in keys_of(known[dotted]))
        raise SettingsError(f"there is no setting `{dotted}`", f"it is a section: name one of {within}")
    if section not in known or not dot:
        names = [f"{room}.{name}" for room, table in known.items() for name in keys_of(table)]
        raise SettingsError(
            f"there is no setting `{dotted}`", _likely(dotted, names, "docs/settings.md lists them")
        )
    return section, key


def check_section(settings: type[msgspec.Struct], section: str, table: object, where: str) -> None:
    known = sections_of(settings)
    if section not in known:
        what = f"section `[{section}]`" if isinstance(table, dict) else f"key `{section}` outside a section"
        raise SettingsError(
            f"`{where}` has an unknown {what}", _likely(section, known, "sections are " + ", ".join(known))
        )
    if not isinstance(table, dict):
        raise SettingsError(
            f"`{where}`: `{section}` is a section", f"write `[{section}]` on a line of its own"
        )


def with_values(
    table: S, section: str, values: Mapping[str, object], *, words: bool = False, where: str = ""
) -> S:
    """Copy of `table` with `values` replaced; with `words`, text may come from the command line."""
    known = keys_of(type(table))
    changed = {}
    for key, given in values.items():
        name = f"{section}.{key}"
        if key not in known:
            place = f" in `{where}`" if where else ""
            prefix = "" if where else f"{section}."  # in a file the section is named above the key
            advice = MISTAKEN_NAMES.get(name) or _likely(
                prefix + key, [prefix + one for one in known], f"[{section}] knows " + ", ".join(known)
            )
            raise SettingsError(f"there is no setting `{name}`{place}", advice)
        kind = known[key].kind
        value = _from_word(given, kind) if words and isinstance(given, str) else given
        try:
            changed[key] = kind.read(value)
        except ValueError:
            place = f" in `{where}`" if where else ""
            # A value that may hold a secret is not repeated.
            is_what = f"is {_shown(given)}" if kind.without_secrets is None else "cannot be read"
            raise SettingsError(f"`{name}` {is_what}{place}", f"it must be {kind.accepts}") from None
        except UsageError as refused:
            place = f" in `{where}`" if where else ""
            raise SettingsError(f"`{name}`{place}: {refused}", refused.hint) from None
    return msgspec.structs.replace(table, **changed)


def from_command_line(word: str) -> object:
    """Read a TOML value from the command line; any other text stays as it is.

    >>> from_command_line("[8, 2]"), from_command_line('"a.atom"'), from_command_line("a.atom")
    ([8, 2], 'a.atom', 'a.atom')
    """
    try:
        read = tomllib.loads(f"value = {word}")
    except tomllib.TOMLDecodeError:
        return word
    return read["value"] if len(read) == 1 else word  # a second line would be another key


def _from_word(word: str, kind: ValueKind) -> object:
    """The same for a setting of this kind: where it takes text, 2026 and true are text."""
    value = from_command_line(word)
    return word if kind.takes_bare_text and not isinstance(value, str) else value


def _shown(value: object) -> str:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    shown = shown.lower() if isinstance(value, bool) else shown
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _likely(word: str, known: Iterable[str], otherwise: str) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else otherwise


def shown_value(settings: msgspec.Struct, section: str, key: str) -> str:
    """One value as written in the file, without its secrets."""
    return keys_of(sections_of(type(settings))[section])[key].kind.show(
        getattr(getattr(settings, section), key)
    )


def secret_settings(settings: msgspec.Struct) -> list[str]:
    """Names of the settings that hold secrets."""
    return [
        f"{name}.{key}"
        for name, section in sections_of(type(settings)).items()
        for key, about in keys_of(section).items()
        if about.kind.is_secret(getattr(getattr(settings, name), key))
    ]


def render(settings: msgspec.Struct) -> str:
    """Write a commented `fieldmouse.toml` that reads back as the same settings."""
    return "\n".join(_lines(settings))


def _lines(settings: msgspec.Struct) -> Iterator[str]:
    yield "# Settings of this crawl. Every key is optional; missing keys have their defaults."
    yield "# Durations: 10s, 500ms, 2h. Sizes: 64MiB, 10MB. Changes apply from the next `fieldmouse resume`."
    for name, section in sections_of(type(settings)).items():
        table: Any = getattr(settings, name)
        yield ""
        for line in (section.__doc__ or "").strip().splitlines():
            yield f"# {line}"
        yield f"[{name}]"
        for key, about in keys_of(section).items():
            value = f"{key} = {about.kind.write(getattr(table, key))}"
            if len(value) + len(about.purpose) <= 100:
                yield f"{value:<31} # {about.purpose}"
            else:
                yield from (f"# {line}" for line in textwrap.wrap(about.purpose, 100))
                yield value
    yield ""
