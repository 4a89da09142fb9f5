"""How wide the front should be."""

from hypothesis import assume, given
from hypothesis import strategies as st

from fieldmouse.policy.front_size import FrontSizeRule

rules = st.builds(
    lambda a, b: FrontSizeRule(minimum=min(a, b), maximum=max(a, b)), st.integers(1, 5000), st.integers(1, 5000)
)


@given(rules, st.lists(st.one_of(st.none(), st.integers(0, 10_000)), max_size=50))
def test_the_front_stays_within_its_bounds(rule: FrontSizeRule, events: list[int | None]) -> None:
    width = rule.minimum
    for ready in events:
        width = rule.grown_size(width) if ready is None else rule.shrunk_size(width, ready)
        assert rule.minimum <= width <= rule.maximum


@given(rules)
def test_demand_reaches_the_largest_front_and_idle_hosts_the_smallest(rule: FrontSizeRule) -> None:
    width = rule.minimum
    for _ in range(5000):
        width = rule.grown_size(width)
    assert width == rule.maximum
    for _ in range(5000):
        width = rule.shrunk_size(width, ready=width)
    assert width == rule.minimum


@given(rules, st.integers(1, 5000))
def test_demand_enlarges_the_front_at_once_and_idle_hosts_shrink_it_slowly(rule: FrontSizeRule, width: int) -> None:
    assume(rule.minimum <= width < rule.maximum)
    assert rule.grown_size(width) > width
    assert rule.shrunk_size(width, ready=width) >= 0.97 * width - 1
