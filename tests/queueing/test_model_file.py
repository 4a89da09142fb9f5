"""Model files: what is understood, and that whatever is wrong is named."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.policy.concurrency_thresholds import Thresholds
from fieldmouse.queueing.model.arrivals import BatchArrivals
from fieldmouse.queueing.model.model import CostWeights, Model
from fieldmouse.queueing.model.model_file import ModelFileContent, read_model, write_model
from fieldmouse.queueing.model.phase_type import PhaseType
from fieldmouse.queueing.model.validation import ModelError
from queueing.models import phase_types, streams, written

NAMES = ("thresholds", "inria")
Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where the numbers are."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    elif not isinstance(value, str):
        yield path


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def spoilt(value: Any, path: Path, entry: object) -> Any:
    wrong = copy.deepcopy(value)
    at(wrong, path[:-1])[path[-1]] = entry
    return wrong


def called(path: Path) -> str:
    """What a person would call that entry."""
    match path:
        case ("modes", str(robots), int(k), *indices):
            head = f"mode {robots}, D{k}"
        case (str(section), str(name), *indices):
            head = f"{section} {name}"
        case (str(name), *indices):
            head = name
    return head + "".join(f"[{i}]" for i in indices)


def complaint(value: object) -> str:
    with pytest.raises(ModelError) as trouble:
        read_model(value)
    return str(trouble.value)


PATHS = [(name, path) for name in NAMES for path in leaves(written(name))]


@given(st.sampled_from(PATHS), st.sampled_from(["3", None, True, math.nan, math.inf, [1.0], {}]))
@settings(max_examples=150, deadline=None)
def test_entry_that_is_not_a_number_is_named(where: tuple[str, Path], entry: object) -> None:
    name, path = where
    assert called(path) + " is " in complaint(spoilt(written(name), path, entry))


@given(st.sampled_from(PATHS))
@settings(max_examples=150, deadline=None)
def test_a_wrong_sign_is_named(where: tuple[str, Path]) -> None:
    name, path = where
    entry = at(written(name), path)
    if entry:
        found = complaint(spoilt(written(name), path, -entry))
        assert found.startswith(f"{called(path)} is {-entry:+g}"[:20])


@given(st.sampled_from([p for p in PATHS if p[1][0] in ("modes", "service", "lifetime")]), st.floats(1.5, 9.0))
@settings(max_examples=150, deadline=None)
def test_a_wrong_size_is_named_by_its_row_or_its_sum(where: tuple[str, Path], factor: float) -> None:
    """A number too large breaks no sign, but its row adds up no more; where it still does, it is a model."""
    name, path = where
    value = written(name)
    entry = at(value, path)
    wrong = spoilt(value, path, entry * factor)
    row = path[-2]
    match path:
        case ("modes", robots, *_) if entry:
            assert f"mode {robots}, D0[{row}][{row}] is " in complaint(wrong)
            assert f"row {row} of D0 + D1 + ... must sum to 0" in complaint(wrong)
        case (str(who), "beta" | "gamma", _) if entry:
            assert complaint(wrong).startswith(f"{who} {path[1]} sums to ")
        case (str(who), str(body), int(i), int(j)) if i != j and entry * factor > -1.0001 * at(
            value, (who, body, i, i)
        ):
            assert complaint(wrong).startswith(f"row {i} of {who} {body} sums to +")
        case _:
            read_model(wrong)


@st.composite
def models(draw: st.DrawFn) -> ModelFileContent:
    phases = draw(st.integers(1, 3))
    names = sorted(draw(st.sets(st.integers(1, 9), min_size=1, max_size=3)), reverse=True)
    capacity = draw(st.integers(1, 40))
    model = Model(
        capacity,
        {robots: draw(streams(phases=phases)) for robots in names},
        draw(phase_types()),
        draw(phase_types() | st.just(PhaseType.never())),
        draw(st.sampled_from(["partial", "rejection", "complete"])),
    )
    limits = sorted(draw(st.lists(st.integers(0, capacity), min_size=len(names) - 1, max_size=len(names) - 1)))
    rule = draw(st.none() | st.just((tuple(names), tuple(limits))))
    return ModelFileContent(model, CostWeights(star=draw(st.floats(0, 9))), rule, "auto")


@given(models())
@settings(max_examples=40, deadline=None)
def test_written_model_is_read_back(asked: ModelFileContent) -> None:
    again = read_model(write_model(asked))
    assert (again.cost, again.rule, again.method) == (asked.cost, asked.rule, asked.method)
    one, two = again.model, asked.model
    assert (one.capacity, one.admission, list(one.modes)) == (two.capacity, two.admission, list(two.modes))
    for robots, stream in one.modes.items():
        for D, known in zip(stream.D, two.modes[robots].D, strict=True):
            np.testing.assert_allclose(D, known, rtol=1e-12)
    for law, known_law in ((one.service, two.service), (one.lifetime, two.lifetime)):
        np.testing.assert_allclose(law.alpha, known_law.alpha, rtol=1e-12)
        np.testing.assert_allclose(law.S, known_law.S, rtol=1e-12)


def test_cost_rule_method_and_admission_may_be_left_out() -> None:
    value = {key: written("thresholds")[key] for key in ("K", "modes", "service", "lifetime")}
    asked = read_model(value)
    assert asked.cost == CostWeights()
    assert asked.rule is None
    assert asked.method == "auto"
    assert asked.model.admission == "partial"


def changed(**changes: object) -> dict[str, Any]:
    return written("thresholds") | changes


@pytest.mark.parametrize(
    ("value", "complaint", "hint"),
    [
        ([], "the model is a list: it must be an object with names", ""),
        ({"K": 5}, "the model has no `modes`", "K, modes, service, lifetime"),
        (changed(Modes={}), "the model has an entry `Modes`", "did you mean `modes`?"),
        (changed(K=0), "K is 0: it must be a whole number, 1 or more", ""),
        (changed(K=2.5), "K is +2.5: it must be a whole number", ""),
        (changed(K=10**12), "K is 1000000000000: no buffer above", ""),
        (changed(modes={}), "modes is empty", ""),
        (changed(modes={"0": [[[-1]], [[1]]]}), 'modes has "0"', 'write it as "1"'),
        (changed(modes={"two": [[[-1]], [[1]]]}), 'modes has "two"', ""),
        (changed(modes={"1": [[[-1]]]}), "mode 1 needs a list of at least two matrices", ""),
        (
            changed(modes={"1": [[[-1]], [[1]]], "2": written("thresholds")["modes"]["2"]}, rule=None),
            "mode 2 has 2 phases and mode 1 has 1",
            "",
        ),
        (changed(service={"beta": [1], "S": [[0]]}), "service S is all 0: no page would ever be served", ""),
        (changed(service={"beta": [1]}), "service has no `S`", "beta, S"),
        (
            changed(service={"beta": [1, 0], "S": [[-1, 0], [0, -1]]}),
            "service beta[1] is 0 and no other phase leads to phase 1",
            "leave row and column 1 out of S",
        ),
        (changed(lifetime={"gamma": [1, 0], "Gamma": [[-1, 1], [0, 0]]}), "lifetime Gamma[1][1] is 0", ""),
        (changed(cost={"losses": 1}), "cost has an entry `losses`", "did you mean `loss`?"),
        (changed(cost={"loss": -1}), "cost loss is -1: a weight must not be negative", ""),
        (changed(method="guess"), 'method is "guess"', "auto, ordered, banded, simulate"),
        (changed(method=["auto"]), "method is a list", "auto, ordered, banded, simulate"),
        (changed(admission="all"), 'admission is "all"', "partial, rejection, complete"),
        (changed(rule={"robots": [3, 1]}), "rule robots has 2 numbers and rule limits 0", ""),
        (changed(rule={"robots": [5, 1], "limits": [2]}), "rule robots[0] is 5", "the modes are 1, 2, 3, 4"),
        (changed(rule={"robots": [1, 3], "limits": [2]}), "rule robots[1] is 3, more than the 1 before", ""),
        (changed(rule={"robots": [3, 2, 1], "limits": [2, 1]}), "rule limits[1] is 1, below limits[0]", ""),
        (changed(rule={"robots": [3, 1], "limits": [-1]}), "rule limits[0] is -1", ""),
        (changed(rule={"robots": [3, 1], "limits": [6]}), "limits[0] is 6, above the highest level, 5", ""),
        (changed(rule={"robots": 3, "limits": []}), "rule robots is +3: it must be a list", ""),
    ],
)
def test_what_breaks_a_rule_is_told(value: object, complaint: str, hint: str) -> None:
    with pytest.raises(ModelError) as trouble:
        read_model(value)
    assert complaint in str(trouble.value)
    assert hint in trouble.value.hint


def test_a_rule_that_names_no_mode_is_refused() -> None:
    model = Model(3, {1: BatchArrivals.poisson(1.0)}, PhaseType.exponential(1.0), PhaseType.never())
    with pytest.raises(ModelError, match="sends 2 robots at level 0, and there is no mode 2"):
        model.robots_by_level(Thresholds((2, 1), (1,)))


def test_a_batch_let_in_whole_may_stand_above_the_capacity() -> None:
    stream = BatchArrivals((np.array([[-1.0]]), np.array([[0.0]]), np.array([[0.0]]), np.array([[1.0]])))
    tops = [
        Model(4, {1: stream}, PhaseType.exponential(1.0), PhaseType.never(), admission).highest_level
        for admission in ("partial", "rejection", "complete")  # type: ignore[misc]
    ]
    assert tops == [4, 4, 6]
