"""Tests of the deciding rule for a path, and of the work to find it, counted in steps."""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.robotstxt.parser import (
    MAX_PATH,
    MAX_SIZE,
    MAX_STEPS,
    TOO_EXPENSIVE,
    PathRule,
    RobotsTxt,
    RuleSet,
    normalize_octets,
)

RESERVED = "!'()+,;:@&=?[]"
UNRESERVED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"


def decides(rules: list[tuple[bool, str]], path: str) -> str:
    rule, steps = RuleSet(PathRule.from_pattern(pattern, allow) for allow, pattern in rules).deciding_rule(
        normalize_octets(path)
    )
    assert steps <= MAX_STEPS
    return str(rule)


# Pattern, paths that match, paths that do not.
PATTERNS = [
    # RFC 9309, 2.2.2: the paths and their encodings
    ("/foo/bar?baz=quz", "/foo/bar?baz=quz", ""),
    ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar", ""),
    ("/foo/bar?baz=https%3A//foo.bar", "/foo/bar?baz=https://foo.bar", ""),
    ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84", ""),
    ("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84", ""),
    ("/foo/bar/\u00e3\u0083\u0084", "/foo/bar/%E3%83%84", ""),  # the octets of U+30C4
    ("/foo/bar/%62%61%7A", "/foo/bar/baz", ""),
    ("/foo/bar/baz", "/foo/bar/%62%61%7A", ""),
    # 2.2.3: special characters
    ("/allowed-despite-a-$", "", "/allowed-despite-a-$"),
    ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", "/path/file-with-a-x.html"),
    ("/path/foo-%24", "/path/foo-$", "/path/foo-"),
    ("/path/foo-$", "/path/foo-", ""),
    ("/a$b", "/a$b /a%24b", "/a"),
    ("/a%24b", "/a$b", ""),
    ("/a$*", "/a$b", "/a"),
    ("/a$$", "/a$", "/a"),
    ("/a%24", "/a$b", "/a"),
    ("/this/*/exactly", "/this/path/exactly", "/this/exactly"),
    ("/this/path/exactly$", "/this/path/exactly", "/this/path/exactly?x"),
    # Google's documentation: paths and what matches them
    ("/", "/", ""),
    ("/*", "/any", ""),
    ("/$", "/", "/x"),
    (
        "/fish",
        "/fish /fish.html /fish/salmon.html /fishheads/yummy.html /fish.php?id=anything",
        "/Fish.asp /catfish /?id=fish",
    ),
    ("/fish*", "/fish /fishheads", "/desert/fish"),
    ("/fish/", "/fish/ /fish/?id=anything", "/fish"),
    ("/*.php", "/index.php /filename.php?parameters /?file.php5", "/ /windows.PHP"),
    ("/*.php$", "/filename.php /a.php/b.php", "/filename.php?parameters /filename.php/ /filename.php5"),
    ("/fish*.php", "/fish.php /fishheads/catfish.php?parameters", "/Fish.PHP"),
    # stars
    ("*", "/x", ""),
    ("*.gif", "/a.gif", ""),
    ("*/b", "/a/b", ""),
    ("/a**b", "/ab", ""),
    ("/a*b*c", "/a-b-c", "/a-c-b"),
    ("/*a*a$", "/aa", "/a"),
    ("/a*$", "/abc", ""),
    ("/*ab$", "/xabab", ""),
    ("/*/*/*/x", "/1/2/3/x", "/1/2/x"),
    # odd ends
    ("/a%", "/a% /a%25", ""),
    ("/a%4", "/a%254", ""),
    ("/a%zz", "/a%zz", ""),
    ("/a%2f", "/a%2F", "/a/"),
    ("/a b", "/a%20b", ""),
    ('/a"b', "/a%22b", ""),
    ("a", "", "/a"),
    ("http://h/a", "", "/a"),
    ("", "", "/a"),
]


@pytest.mark.parametrize(("pattern", "matching", "other"), PATTERNS)
def test_rules_of_the_rfc_case_by_case(pattern: str, matching: str, other: str) -> None:
    assert all(decides([(False, pattern)], path) != "None" for path in matching.split())
    assert all(decides([(False, pattern)], path) == "None" for path in other.split())


def test_longer_rule_wins_and_allow_wins_a_tie() -> None:
    """The table of Google's documentation on precedence."""
    for allow, disallow, path, allowed in [
        ("/p", "/", "/page", True),
        ("/folder", "/folder", "/folder/page", True),
        ("/page", "/*.htm", "/page.htm", False),
        ("/page", "/*.ph", "/page.php5", True),
        ("/$", "/", "/", True),
        ("/$", "/", "/page.htm", False),
        ("/**", "/$b", "/$b", True),
        ("/a*b", "/a$b", "/a$b", True),
        ("/*", "/$b", "/$b", False),
    ]:
        assert decides([(True, allow), (False, disallow)], path).startswith("Allow") == allowed


@given(st.text(st.sampled_from(UNRESERVED + RESERVED), max_size=20))
def test_a_character_and_its_escape_are_the_same(text: str) -> None:
    escaped = "".join(f"%{ord(character):02x}" for character in text)
    assert normalize_octets(escaped) == normalize_octets(text) == text


@given(st.binary(max_size=30))
def test_normalizing_keeps_the_octets_and_is_idempotent(raw: bytes) -> None:
    text = raw.replace(b"%", b"").decode("latin-1")
    spelled = normalize_octets(text)
    assert spelled.isascii()
    assert normalize_octets(spelled) == spelled
    assert unquote_to_bytes(spelled) == raw.replace(b"%", b"")
    assert normalize_octets(quote(raw.replace(b"%", b""), safe="/")) == spelled


@given(
    st.lists(st.text(st.sampled_from("/ab*"), max_size=8), max_size=60), st.text(st.sampled_from("/ab"), max_size=12)
)
def test_the_index_of_heads_agrees_with_trying_every_rule(patterns: list[str], path: str) -> None:
    rules = [PathRule.from_pattern("/" + pattern, bool(n % 2)) for n, pattern in enumerate(patterns)]
    path = "/" + path
    alone = [rule for rule in rules if rule and RuleSet([rule]).deciding_rule(path)[0]]
    rule, _ = RuleSet(rules).deciding_rule(path)
    expected = max(((r.length, r.allow) for r in alone), default=None)
    assert (rule and (rule.length, rule.allow)) == expected


# -- the work


def filled(rule: str, least: int = 0) -> list[PathRule | None]:
    """Return as many rules as fit into the largest robots.txt."""
    count = MAX_SIZE // (len("Disallow: \n") + len(rule.format(least)))
    return [PathRule.from_pattern(rule.format(n), allow=False) for n in range(least, least + count)]


HOSTILE = {
    "wildcards": ["/*{:06d}"],
    "short wildcards": ["*{}", "/*{}"],
    "two stars": ["/*{:05d}*x"],
    "many stars": ["/*a*a*a*a*a*a*a*a*a*a*a*a*{}"],
    "anchored": ["/*{:05d}$"],
    "a thousand stars": ["/" + "*a" * 1000 + "{}"],
    "nested heads": ["/" + "a" * 300 + "{}*b"],
}


PATHS = ["/", "/some/page.html", "/" + "a" * 2000, "/" + "ab" * 4000, "/a?" + "a" * 500 + "b"]


@pytest.mark.parametrize("patterns", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_file_exceeds_the_work_limit(patterns: list[str]) -> None:
    book = RuleSet(rule for pattern in patterns for rule in filled(pattern))
    for path in PATHS:
        rule, steps = book.deciding_rule(path)
        assert steps <= MAX_STEPS + 2 + len(path) // 256  # the step that was one too many
        assert rule is None or steps <= MAX_STEPS


@given(
    st.lists(st.text(st.sampled_from("ab*"), max_size=12), max_size=60),
    st.text(st.sampled_from("ab"), max_size=40),
    st.integers(1, 60),
)
def test_arbitrary_rules_keep_the_work_limit_and_report_an_unfinished_search(
    patterns: list[str], path: str, work: int
) -> None:
    book = RuleSet(PathRule.from_pattern("/" + pattern, bool(n % 3)) for n, pattern in enumerate(patterns))
    rule, steps = book.deciding_rule("/" + path, work)
    assert steps <= work + 2
    if steps <= work:
        assert rule == book.deciding_rule("/" + path, 1_000_000)[0]


def test_heads_inside_heads_are_found_in_a_few_steps_each() -> None:
    book = RuleSet(PathRule.from_pattern("/" + "a" * n, allow=False) for n in range(1000))
    rule, steps = book.deciding_rule("/" + "a" * 500 + "b")
    assert rule is not None
    assert rule.length == 501
    assert steps <= MAX_STEPS
    other = RuleSet(PathRule.from_pattern(f"/shop/{n}", allow=False) for n in range(40_000))
    assert other.deciding_rule("/page")[1] <= 3


def test_too_expensive_path_is_excluded_with_reason() -> None:
    text = b"User-agent: *\n" + b"".join(b"Disallow: /*%06d\n" % n for n in range(25_000))
    rules = RobotsTxt.parse(text, "fieldmouse")
    assert rules.forbidding_rule("/page") == TOO_EXPENSIVE
    assert rules.forbidding_rule("/robots.txt") is None
    fewer = RobotsTxt.parse(b"".join(text.splitlines(keepends=True)[:1000]), "fieldmouse")
    assert fewer.forbidding_rule("/page") is None
    assert fewer.forbidding_rule("/page/000007") == "Disallow: /*000007"


@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 6), min_size=1, max_size=4)), max_size=6),
    st.integers(0, 9),
)
def test_dropped_long_rules_decide_as_if_kept(drawn: list[tuple[bool, list[int]]], length: int) -> None:
    """Parts of thousands of letters, against paths of thousands; each rule by itself is the oracle."""
    unit = "a" * (MAX_PATH // 5)
    rules = [
        rule
        for allow, parts in drawn
        if (rule := PathRule.from_pattern("/" + "*".join(unit * n for n in parts), allow))
    ]
    path = "/" + unit * length
    decided, steps = RuleSet(rules).deciding_rule(path)
    hits = [rule for rule in rules if rule.shortest <= len(path)]  # all letters are equal
    best = max(hits, key=lambda rule: (rule.length, rule.allow), default=None)
    if len(path) > MAX_PATH and any(rule.shortest > MAX_PATH for rule in rules):
        assert steps > MAX_STEPS  # which forbids it
    else:
        assert (decided, steps <= MAX_STEPS) == (best, True)


def test_too_long_rule_takes_no_memory() -> None:
    for pattern in ("/" + "\xff" * 20_000, "/*" + "a*" * MAX_PATH):
        for allow in (False, True):
            book = RuleSet([PathRule.from_pattern(pattern, allow), PathRule.from_pattern("/b", False)])
            assert book.size == RuleSet([PathRule.from_pattern("/b", False)]).size
            assert str(book.deciding_rule("/b")[0]) == "Disallow: /b"
    long = RobotsTxt.parse(b"User-agent: *\nDisallow: /" + b"a" * 9000, "fieldmouse")
    assert long.allows("/a")
    assert long.forbidding_rule("/" + "b" * 9000) == TOO_EXPENSIVE


@given(st.lists(st.tuples(st.booleans(), st.text("/ab*$%#\u00e4 ", max_size=10).map("/".__add__)), max_size=6))
def test_written_rules_parse_to_the_same_rules(lines: list[tuple[bool, str]]) -> None:
    """Every property of a rule, including its length: it decides which rule wins."""
    rules = {rule for allow, pattern in lines if (rule := PathRule.from_pattern(pattern, allow)) is not None}
    again = set()
    for rule in rules:
        field, _, pattern = rule.to_line().partition(": ")
        again.add(PathRule.from_pattern(pattern, field == "Allow"))
    assert again == rules
    written = RuleSet(rules).rule_lines()
    assert written is not None
    assert sorted(written) == sorted(rule.to_line() for rule in rules)


def test_file_with_dropped_rules_is_not_written() -> None:
    rules = RobotsTxt.parse(b"User-agent: *\nDisallow: /" + b"a" * (MAX_PATH + 1), "fieldmouse")
    assert rules.to_bytes() == b""
    plain = b"User-agent: *\nDisallow: /a*b$\nCrawl-delay: 2.5\nSitemap: http://a.org/s.xml\n"
    again = RobotsTxt.parse(RobotsTxt.parse(plain, "fieldmouse").to_bytes(), "fieldmouse")
    assert (again.allows("/acb"), again.allows("/acbd")) == (False, True)
    assert (again.crawl_delay, again.sitemaps) == (2.5, ("http://a.org/s.xml",))
