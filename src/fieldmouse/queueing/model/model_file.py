"""JSON format of a model, with errors that name the invalid entry.

    {"K": 5, "modes": {"1": [D0, D1], "3": [D0, D1, D2]},
     "service": {"beta": [...], "S": [[...]]}, "lifetime": {"gamma": [...], "Gamma": [[...]]},
     "cost": {"loss": 5, "obs": 10, "sojourn": 2, "robots": 20, "star": 300},
     "rule": {"robots": [3, 1], "limits": [2]}, "method": "auto"}

Cost, rule, method and admission may be left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fieldmouse.queueing.model import arrivals, phase_type, validation
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import ADMISSIONS, METHODS, CostWeights, Method, Model
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import ModelError, show_number

#: The largest buffer: every level is held in memory, and each has a share of the time.
MOST_PAGES = 1_000_000

REQUIRED = ("K", "modes", "service", "lifetime")
OPTIONAL = ("cost", "rule", "method", "admission")


@dataclass(frozen=True, slots=True)
class ModelFileContent:
    """What a file asks for; `rule` is numbers of fetch workers and limits, as `Thresholds` takes them."""

    model: Model
    cost: CostWeights
    rule: tuple[tuple[int, ...], tuple[int, ...]] | None
    method: Method


def read_model(written: object) -> ModelFileContent:
    """Understand a decoded JSON value, or raise a `ModelError` that names the entry and what it breaks."""
    found = _checked_object(written, "the model", REQUIRED, OPTIONAL)
    capacity = _whole_number(found["K"], "K", least=1)
    if capacity > MOST_PAGES:
        raise ModelError(f"K is {capacity}: no buffer above {MOST_PAGES} pages can be held")
    modes = _read_modes(found["modes"])
    service = _read_phase_type(found["service"], "service", "beta", "S")
    lifetime = _read_phase_type(found["lifetime"], "lifetime", "gamma", "Gamma")
    admission = _one_of(found.get("admission", "partial"), "admission", ADMISSIONS)
    model = Model(capacity, modes, service, lifetime, admission)
    rule = _read_rule(found["rule"], model) if found.get("rule") is not None else None
    return ModelFileContent(
        model, _read_cost(found.get("cost", {})), rule, _one_of(found.get("method", "auto"), "method", METHODS)
    )


def write_model(asked: ModelFileContent) -> dict[str, Any]:
    """The JSON value that `read_model` understands as this.

    >>> model = Model(2, {1: BatchArrivals.poisson(1.0)}, PhaseType.exponential(2.0), PhaseType.never())
    >>> write_model(ModelFileContent(model, CostWeights(star=1.0), None, "auto"))["service"]
    {'beta': [1.0], 'S': [[-2.0]]}
    """
    model = asked.model
    written: dict[str, Any] = {
        "K": model.capacity,
        "modes": {str(robots): [D.tolist() for D in stream.D] for robots, stream in model.modes.items()},
        "service": {"beta": model.service.alpha.tolist(), "S": model.service.S.tolist()},
        "lifetime": {"gamma": model.lifetime.alpha.tolist(), "Gamma": model.lifetime.S.tolist()},
        "cost": {weight.name: getattr(asked.cost, weight.name) for weight in fields(CostWeights)},
        "method": asked.method,
        "admission": model.admission,
    }
    if asked.rule is not None:
        written["rule"] = {"robots": list(asked.rule[0]), "limits": list(asked.rule[1])}
    return written


def _read_modes(value: object) -> dict[int, BatchArrivals]:
    found = _json_object(value, "modes")
    if not found:
        raise ModelError("modes is empty: there must be arrivals for at least one number of robots")
    modes: dict[int, BatchArrivals] = {}
    for name, D in found.items():
        if not (name.isascii() and name.isdigit() and int(name) > 0 and str(int(name)) == name):
            raise ModelError(
                f'modes has "{name}": a mode is named by its number of robots', 'write it as "1", "2", ...'
            )
        modes[int(name)] = BatchArrivals(arrivals.validated_arrivals(D, f"mode {name}"))
    return modes


def _read_phase_type(value: object, who: str, start: str, body: str) -> PhaseType:
    found = _checked_object(value, who, (start, body))
    law = PhaseType(*phase_type.validated_phase_type(found[start], found[body], who, start, body))
    if law.is_never and who == "service":
        raise ModelError(f"{who} {body} is all 0: no page would ever be served")
    for i, reached in enumerate(law.reachable_phases):
        if not reached:
            raise ModelError(
                f"{who} {start}[{i}] is 0 and no other phase leads to phase {i}: it can never be entered",
                f"leave row and column {i} out of {body}",
            )
    return law


def _read_cost(value: object) -> CostWeights:
    names = tuple(weight.name for weight in fields(CostWeights))
    found = _checked_object(value, "cost", (), names)
    weights = {name: validation.checked_number(weight, f"cost {name}") for name, weight in found.items()}
    for name, weight in weights.items():
        if weight < 0:
            raise ModelError(f"cost {name} is {show_number(weight)}: a weight must not be negative")
    return CostWeights(**weights)


def _read_rule(value: object, model: Model) -> tuple[tuple[int, ...], tuple[int, ...]]:
    found = _checked_object(value, "rule", ("robots",), ("limits",))
    robots = _whole_numbers(found["robots"], "rule robots", least=1)
    limits = _whole_numbers(found.get("limits", []), "rule limits", least=0)
    if len(robots) != len(limits) + 1:
        raise ModelError(
            f"rule robots has {len(robots)} numbers and rule limits {len(limits)}: "
            "there must be one limit between each two"
        )
    for i, count in enumerate(robots):
        if count not in model.modes:
            raise ModelError(
                f"rule robots[{i}] is {count}, and there is no such mode",
                f"the modes are {', '.join(map(str, model.modes))}",
            )
        if i and count > robots[i - 1]:
            raise ModelError(
                f"rule robots[{i}] is {count}, more than the {robots[i - 1]} before: "
                "a fuller buffer must not wake more robots"
            )
    for i, limit in enumerate(limits):
        if i and limit < limits[i - 1]:
            raise ModelError(f"rule limits[{i}] is {limit}, below limits[{i - 1}]: limits must not fall")
        if limit > model.highest_level:
            raise ModelError(f"rule limits[{i}] is {limit}, above the highest level, {model.highest_level}")
    return robots, limits


def _whole_numbers(value: object, name: str, least: int) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise ModelError(f"{name} is {show_number(value)}: it must be a list of whole numbers")
    return tuple(_whole_number(entry, f"{name}[{i}]", least) for i, entry in enumerate(value))


def _whole_number(value: object, name: str, least: int) -> int:
    found = validation.checked_number(value, name)
    if found != int(found) or found < least:
        raise ModelError(f"{name} is {show_number(value)}: it must be a whole number, {least} or more")
    return int(found)


def _one_of(value: object, name: str, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise ModelError(f"{name} is {show_number(value)}", f"it is one of {', '.join(known)}")
    return value


def _json_object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ModelError(f"{name} is {show_number(value)}: it must be an object with names")
    return value


def _checked_object(
    value: object, name: str, required: Iterable[str], optional: Iterable[str] = ()
) -> Mapping[str, Any]:
    """Check that an object has all required keys and no unknown ones."""
    found = _json_object(value, name)
    known = [*required, *optional]
    for key in found:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise ModelError(
                f"{name} has an entry `{key}`, which means nothing",
                f"did you mean `{near[0]}`?" if near else f"it may have: {', '.join(known)}",
            )
    for key in required:
        if key not in found:
            raise ModelError(f"{name} has no `{key}`", f"it needs: {', '.join(required)}")
    return found
