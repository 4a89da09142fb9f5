"""The automata of pages and nodes: what holds at every state, and that vectors move as one automaton does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.errors import SettingsError
from fieldmouse.policy.polling_automata import (
    NodeOverloadAutomaton,
    count_penalties,
    poll_frequency,
    push_history,
    states_after_poll,
)

resolutions = st.integers(1, 40)


def one_page(state: int, changed: bool, resolution: int) -> int:
    """The rule as printed, case by case."""
    if changed and 1 <= state < resolution:
        return state + 1
    if not changed and 1 < state <= resolution:
        return state - 1
    return state


@given(resolutions, st.data())
def test_many_pages_move_as_each_would_alone(resolution: int, data: st.DataObject) -> None:
    polls = data.draw(st.lists(st.tuples(st.integers(1, resolution), st.booleans()), max_size=30))
    kind = data.draw(st.sampled_from(["int8", "uint8", "int64", "float32"]))
    states = np.array([state for state, _ in polls], dtype=kind)
    changed = np.array([found for _, found in polls], dtype=bool)
    moved = states_after_poll(states, changed, resolution)
    assert moved.tolist() == [one_page(state, found, resolution) for state, found in polls]
    assert moved.dtype == states.dtype


def test_the_states_given_are_left_as_they_are() -> None:
    states = np.array([3, 3])
    states_after_poll(states, np.array([True, False]), 8)
    assert states.tolist() == [3, 3]


def test_a_state_of_the_smallest_type_does_not_wrap_around() -> None:
    assert states_after_poll(np.array([255], dtype=np.uint8), np.array([True]), 255).tolist() == [255]
    assert states_after_poll(np.array([1], dtype=np.uint8), np.array([False]), 255).tolist() == [1]


@given(resolutions, st.floats(0.3, 3.0))
def test_a_higher_state_polls_more_and_the_highest_polls_always(resolution: int, linearity: float) -> None:
    polls = poll_frequency(np.arange(1, resolution + 1), resolution, linearity)
    assert (np.diff(polls) > 0).all()
    assert polls[-1] == 1.0
    assert polls[0] > 0


@given(st.integers(1, 64), st.lists(st.booleans(), max_size=100))
def test_a_history_counts_the_penalties_among_its_last_polls(length: int, polls: list[bool]) -> None:
    history = np.zeros(1, dtype=np.uint64)
    for changed in polls:
        history = push_history(history, np.array([changed]), length)
    assert count_penalties(history).tolist() == [polls[-length:].count(False)]


@given(st.integers(1, 30), st.data())
def test_a_nodes_automaton_moves_as_printed(states: int, data: st.DataObject) -> None:
    threshold = data.draw(st.integers(1, states))
    rule = NodeOverloadAutomaton(states, threshold)
    state = threshold
    for overloaded in data.draw(st.lists(st.booleans(), max_size=60)):
        if overloaded and threshold <= state < states - 1:
            expected = state + 2
        elif not overloaded and threshold < state <= states:
            expected = state - 1
        else:
            expected = state
        state = rule.state_after_slot(state, overloaded=overloaded)
        assert state == expected
        assert threshold <= state <= states
        assert 0 < rule.site_release_probability(state) <= 1


@pytest.mark.parametrize("threshold", [0, 17])
def test_a_threshold_must_be_a_state(threshold: int) -> None:
    with pytest.raises(SettingsError, match=f"threshold of {threshold}"):
        NodeOverloadAutomaton(16, threshold)
