"""Traps: what is left out, by name, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.policy.scope import NO_TRAP_RULES, TrapRules, detect_trap, strip_session_id
from fieldmouse.url import Url, resolve

NOW = 1_795_000_000.0  # late in 2026
steps = st.lists(st.sampled_from(["a", "b", "c", "2026", "11", "x.html"]), max_size=30)


@pytest.mark.parametrize(
    ("path", "sign"),
    [
        ("/" + "x" * 2000, "the URL is too long"),
        ("/" + "/".join(map(str, range(30))), "the path is too deep"),
        ("/a/b/a/b/a/b/a/b", "the path repeats itself"),
        ("/css/css/css/css/", "the path repeats itself"),
        ("/?" + "&".join(f"p{n}=1" for n in range(30)), "too many parameters"),
        ("/cal/2093/04/", "a calendar page far from today"),
        ("/events?date=1621-04-01", "a calendar page far from today"),
        ("/a?sid=0123456789abcdef0123", "a session id"),
        ("/a;jsessionid=12", "a session id"),
    ],
)
def test_a_trap_is_named(path: str, sign: str) -> None:
    url = Url("http://example.org" + path)
    assert detect_trap(url, TrapRules(), NOW) == sign
    assert detect_trap(url, NO_TRAP_RULES, NOW) is None


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/news/2026/11/a-story.html",
        "/1923/05/",
        "/p/9999/12",
        "/a?id=12345&page=2",
        "/v/2.0/api/v/2.0",
        "/archive/1000/page/2",
        "/a?sid=home",
        "/a?s=search+words",
        "/2027/01/",
        "/de/de/de",
        "/a?year=2025",
    ],
)
def test_ordinary_pages_are_no_traps(path: str) -> None:
    assert detect_trap(Url("http://example.org" + path), TrapRules(), NOW) is None


@given(steps, st.booleans())
def test_the_quick_check_makes_the_same_decision(path: list[str], query: bool) -> None:
    """The pattern that lets plain URLs pass at once agrees with the long way round."""
    url = Url("http://example.org/" + "/".join(path) + ("?x" if query else ""))
    longer = Url(url + ("&" if query else "?") + "z=1")  # never plain
    assert detect_trap(url, TrapRules(), NOW) == detect_trap(longer, TrapRules(), NOW)


@given(st.lists(st.sampled_from(["a=1", "PHPSESSID=abc123", "sid=" + "0a" * 8, "b=2"]), max_size=4))
def test_a_url_without_its_session_id_shows_none(parameters: list[str]) -> None:
    url = Url("http://example.org/p" + ("?" + "&".join(parameters) if parameters else ""))
    bare = strip_session_id(url)
    assert detect_trap(bare, TrapRules(), NOW) is None
    assert resolve(bare) == bare
    kept = [one for one in parameters if one in ("a=1", "b=2")]
    assert bare == "http://example.org/p" + ("?" + "&".join(kept) if kept else "")
