"""Structs and enums that reach a file, Redis, a worker's pipe or `--json`: encoded names and values.

Names of classes, and of the fields of structs that are encoded as arrays, do not count: two lists of shapes
are compared. Which structs are encoded is guessed when the golden file is written: those that are passed to a
call (`Decoder(X)`, `decode(..., type=X)`, `checkpoint.state("part", X)`), all with a tag, all encoded as
arrays, and whatever these have as fields. Settings have a test of their own. All enums are listed, with their
values only: values are stored, names are not.
"""

from __future__ import annotations

import ast
import enum
import inspect
import json
import types
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from formats.golden import WRITING, check_superset, classes, modules, plain

NOT_DECODING = {"isinstance", "issubclass", "cast", "field", "replace", "TypeVar", "fields", "get_type_hints"}


def shape(struct: type[msgspec.Struct]) -> str:
    """What a struct looks like when it is encoded, on one line."""
    config = struct.__struct_config__
    fields = []
    for field in msgspec.structs.fields(struct):
        name = "" if config.array_like else f"{field.encode_name}: "
        fields.append(f"{name}{kind(field.type)}{default_of(field)}")
    if not config.array_like:
        fields.sort()
    tag = "" if config.tag is None else f" {config.tag_field}={config.tag}"
    return f"{'array' if config.array_like else 'object'}{tag} ({', '.join(fields)})"


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return ""
    factory = field.default_factory
    value = field.default if factory is msgspec.NODEFAULT else factory()
    return f" = {json.dumps(plain(value), sort_keys=True, ensure_ascii=False)}"


def kind(hint: Any) -> str:
    """A type without the names of classes: struct, enum, or one of Python's own."""
    hint = getattr(hint, "__supertype__", hint)
    if get_origin(hint) is Literal:
        return "|".join(sorted(map(repr, get_args(hint))))
    arguments = [kind(one) for one in get_args(hint) if one is not Ellipsis and not _is_note(one)]
    if isinstance(hint, type) and not arguments:
        if issubclass(hint, msgspec.Struct):
            return "struct"
        if issubclass(hint, enum.Enum):
            return "enum"
        return hint.__name__ if hint.__module__ == "builtins" else "other"
    if arguments:
        origin = getattr(hint, "__origin__", types.UnionType)
        if origin is types.UnionType or "Union" in str(origin):
            return " | ".join(sorted(set(arguments)))
        name = getattr(origin, "__name__", "")
        return arguments[0] if name == "Annotated" else f"{name}[{', '.join(arguments)}]"
    return "other"


def _is_note(value: object) -> bool:
    return not isinstance(value, type) and type(value).__module__.startswith(("fieldmouse", "msgspec"))


def structs_within(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in get_args(hint):
        yield from structs_within(inner)


def encoded() -> set[type[msgspec.Struct]]:
    """Structs that seem to be encoded somewhere, and whatever they have as fields."""
    found = set()
    for module in modules():
        for call in ast.walk(ast.parse(inspect.getsource(module))):
            if not isinstance(call, ast.Call) or _last_name(call.func) in NOT_DECODING:
                continue
            for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
                if isinstance(argument, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp):
                    try:
                        value = eval(ast.unparse(argument), vars(module))
                    except Exception:
                        continue
                    found.update(structs_within(value))
    tagged = (
        one
        for one in classes(msgspec.Struct)
        if one.__struct_config__.tag is not None or one.__struct_config__.array_like
    )
    waiting = [*found, *tagged]
    found = set()
    while waiting:
        struct = waiting.pop()
        if struct not in found:
            found.add(struct)
            for hint in get_type_hints(struct, include_extras=True).values():
                waiting += structs_within(hint)
    (settings,) = [one for one in found if {"crawl", "scope", "politeness"} <= set(one.__struct_fields__)]
    found -= {settings, *structs_within(tuple[tuple(get_type_hints(settings).values())])}
    return {one for one in found if one.__module__.startswith("fieldmouse")}


def _last_name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def test_encoded_structs_keep_their_names_order_and_defaults() -> None:
    every = classes(msgspec.Struct)
    wanted = encoded() if WRITING else every
    check_superset("structs", [shape(one) for one in every if one in wanted])


def test_enums_keep_their_values() -> None:
    found = classes(enum.Enum)
    check_superset("enums", [json.dumps(sorted(plain(m.value) for m in one)) for one in found])
