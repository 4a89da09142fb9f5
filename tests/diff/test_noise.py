"""Tests of learning and unlearning noise: laws over histories of polls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.diff.change_detection import (
    EMPTY_MEMORY,
    MAX_PLACES,
    MAX_PLACES_PER_CHANGE,
    POLLS_TO_LEARN,
    NoiseDecision,
    NoiseMemory,
    learn_difference,
    learn_unchanged,
    pack_memory,
    unpack_memory,
)
from fieldmouse.diff.compare import ChangedWordCount, DiffStat

CLOCK, QUOTE, TEXT = 7, 8, 0

looks = st.lists(st.frozensets(st.sampled_from([CLOCK, QUOTE, 9, TEXT])), max_size=14)


def look(memory: NoiseMemory, places: frozenset[int] | set[int], at: float) -> NoiseDecision:
    """One poll; nothing differs if there are no places."""
    if not places:
        return NoiseDecision(learn_unchanged(memory), False)
    return learn_difference(memory, DiffStat([ChangedWordCount(place, 1) for place in places], 100), at)


def history(seen: list[frozenset[int]]) -> list[NoiseDecision]:
    told, memory = [], EMPTY_MEMORY
    for at, places in enumerate(seen):
        told.append(look(unpack_memory(pack_memory(memory)), places, float(at)))
        memory = told[-1].memory
    return told


def oracle(seen: list[frozenset[int]]) -> list[bool]:
    """Return whether each poll reports a change, by the documented rule over the whole history."""
    noise: set[int] = set()
    told = []
    for at, places in enumerate(seen):
        last = seen[max(0, at - POLLS_TO_LEARN + 1) : at + 1]
        if len(last) == POLLS_TO_LEARN:
            noise |= frozenset.intersection(*last) - {TEXT}
            noise -= {place for place in noise if not any(place in looked for looked in last)}
        told.append(bool(places - noise))
    return told


@given(looks)
def test_changes_are_reported_by_the_rule_as_documented(seen: list[frozenset[int]]) -> None:
    assert [lesson.changed for lesson in history(seen)] == oracle(seen)


@given(looks)
def test_only_reported_changes_are_withdrawn_and_only_once(seen: list[frozenset[int]]) -> None:
    lessons = history(seen)
    withdrawn = [at for lesson in lessons for at in lesson.withdrawn]
    assert len(set(withdrawn)) == len(withdrawn)
    assert all(lessons[int(at)].changed for at in withdrawn)
    for now, lesson in enumerate(lessons):
        for at in lesson.withdrawn:
            assert now - POLLS_TO_LEARN < at < now, "it was one of the two looks before"
            assert TEXT not in seen[int(at)], "a text that was written is never taken back"


def test_clock_is_reported_twice_and_then_withdrawn() -> None:
    lessons = history([frozenset({CLOCK})] * 6)
    assert [lesson.changed for lesson in lessons] == [True, True, False, False, False, False]
    assert [lesson.withdrawn for lesson in lessons] == [(), (), (0.0, 1.0), (), (), ()]


def test_real_change_beside_noise_is_reported_and_not_withdrawn() -> None:
    both, clock = frozenset({CLOCK, TEXT}), frozenset({CLOCK})
    lessons = history([clock, both, clock, clock, both])
    assert [lesson.changed for lesson in lessons] == [True, True, False, False, True]
    assert [lesson.withdrawn for lesson in lessons] == [(), (), (0.0,), (), ()]


def test_change_of_two_places_is_withdrawn_only_if_both_are_noise() -> None:
    both, clock = frozenset({CLOCK, QUOTE}), frozenset({CLOCK})
    assert [lesson.withdrawn for lesson in history([both, clock, clock])] == [(), (), (1.0,)]
    assert [lesson.withdrawn for lesson in history([both, both, both])] == [(), (), (0.0, 1.0)]


def test_noise_that_stops_is_reported_again() -> None:
    still = frozenset[int]()
    lessons = history([frozenset({CLOCK})] * 3 + [still] * 2 + [frozenset({CLOCK})] + [still] * 3)
    assert not lessons[5].changed, "a pause of two looks may be a cache"
    assert look(lessons[-1].memory, {CLOCK}, 9.0).changed


@given(looks, st.binary(max_size=40))
def test_memory_is_small_and_invalid_bytes_mean_empty_memory(seen: list[frozenset[int]], raw: bytes) -> None:
    for lesson in history(seen):
        assert unpack_memory(pack_memory(lesson.memory)) == lesson.memory
        assert unpack_memory(pack_memory(lesson.memory) + b"x") == EMPTY_MEMORY
    assert isinstance(unpack_memory(raw), NoiseMemory)
    assert unpack_memory(b"") == EMPTY_MEMORY
    assert pack_memory(EMPTY_MEMORY) == b""


def test_memory_is_bounded() -> None:
    memory = EMPTY_MEMORY
    for at in range(5):
        places = set(range(10, 10 + MAX_PLACES_PER_CHANGE)) | {1000 + at * 500 + k for k in range(400)}
        memory = unpack_memory(pack_memory(look(memory, places, at).memory))
        memory = unpack_memory(pack_memory(look(memory, set(range(10, 10 + MAX_PLACES_PER_CHANGE)), at + 0.5).memory))
    assert len(pack_memory(memory)) < 1024
    assert len(memory.polls_differing) <= MAX_PLACES
    assert set(range(10, 10 + MAX_PLACES_PER_CHANGE)) <= memory.noise_places, "what differed longest is kept"
