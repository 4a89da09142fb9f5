"""How wide the front should be."""

from hypothesis import assume, given
from hypothesis import strategies as st

from fieldmouse.policy.front import FrontRule

rules = st.builds(
    lambda a, b: FrontRule(minimum=min(a, b), maximum=max(a, b)), st.integers(1, 5000), st.integers(1, 5000)
)


@given(rules, st.lists(st.one_of(st.none(), st.integers(0, 10_000)), max_size=50))
def test_the_front_stays_within_its_bounds(rule: FrontRule, events: list[int | None]) -> None:
    width = rule.minimum
    for ready in events:
        width = rule.after_hunger(width) if ready is None else rule.after_plenty(width, ready)
        assert rule.minimum <= width <= rule.maximum


@given(rules)
def test_hunger_reaches_the_widest_front_and_plenty_the_narrowest(rule: FrontRule) -> None:
    width = rule.minimum
    for _ in range(5000):
        width = rule.after_hunger(width)
    assert width == rule.maximum
    for _ in range(5000):
        width = rule.after_plenty(width, ready=width)
    assert width == rule.minimum


@given(rules, st.integers(1, 5000))
def test_hunger_widens_at_once_and_plenty_narrows_slowly(rule: FrontRule, width: int) -> None:
    assume(rule.minimum <= width < rule.maximum)
    assert rule.after_hunger(width) > width
    assert rule.after_plenty(width, ready=width) >= 0.97 * width - 1
