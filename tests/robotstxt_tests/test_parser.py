"""Tests of robots.txt by RFC 9309, also against a plain matcher written from the text of the RFC."""

from __future__ import annotations

import gzip
import re
from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fieldmouse.robotstxt.parser import (
    DAY,
    HOUR,
    MAX_REDIRECTS,
    RobotsTxt,
    RobotsTxtRedirect,
    RobotsTxtUnreachable,
    cache_seconds,
    interpret_response,
)
from fieldmouse.types.outcome import Failed, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Url

US = "fieldmouse"


def allows(text: str, path: str, product: str = US) -> bool:
    return RobotsTxt.parse(text.encode(), product).allows(path)


ALL = "User-agent: *\n"
SPLIT = "User-agent: {}\nDisallow: /a\n\nUser-agent: z\nDisallow: /z\n\nUser-agent: {}\nDisallow: /b\n"


@pytest.mark.parametrize(
    ("why", "text", "path", "allowed"),
    [
        ("the longest match wins", ALL + "Disallow: /a\nAllow: /a/b\n", "/a/b/c", True),
        ("whatever the order", ALL + "Allow: /\nDisallow: /x\n", "/x", False),
        ("of equals, allow wins", ALL + "Disallow: /p\nAllow: /p\n", "/p", True),
        ("* is any characters", ALL + "Disallow: /*.gif\n", "/a/b.gif?x", False),
        ("$ is the end", ALL + "Disallow: /*.php$\n", "/a.php", False),
        ("and only the end", ALL + "Disallow: /*.php$\n", "/a.php?x=1", True),
        ("length counts the pattern", ALL + "Allow: /page\nDisallow: /*.html\n", "/page.html", False),
        ("our group, not *", ALL + f"Disallow: /\n\nUser-agent: {US}\nDisallow: /no\n", "/yes", True),
        ("our name in any case", "User-agent: FieldMouse\nDisallow: /\n", "/x", False),
        ("groups of one name are one", SPLIT.format(US, US), "/b", False),
        ("with the first of them", SPLIT.format(US, US), "/a", False),
        ("groups of * are one", SPLIT.format("*", "*"), "/b", False),
        ("several names share a group", f"User-agent: {US}\nUser-agent: b\nDisallow: /\n", "/", False),
        ("an empty line ends no group", f"User-agent: {US}\n\nDisallow: /a\n", "/a", False),
        ("nor does another record", f"User-agent: {US}\nSitemap: http://h/s\nUser-agent: b\nDisallow: /a", "/a", False),
        ("an empty Disallow allows", ALL + "Disallow:\n", "/a", True),
        ("paths have case", ALL + "Disallow: /A\n", "/a", True),
        ("%7E is ~", ALL + "Disallow: /a%7Eb\n", "/a~b", False),
        ("%3c is %3C", ALL + "Disallow: /a%3cd.html\n", "/a%3Cd.html", False),
        ("UTF-8 is its octets", ALL + "Disallow: /ツ\n", "/%E3%83%84", False),
        ("%2F is not /", ALL + "Disallow: /a%2Fb\n", "/a/b", True),
        ("comments end lines", "User-agent: * # all\nDisallow: /a # no\n", "/a", False),
        ("/robots.txt is always allowed", ALL + "Disallow: /\n", "/robots.txt", True),
        ("no match, no harm", ALL + "Disallow: /a\n", "/b", True),
        ("a byte order mark is no letter", "\ufeff" + ALL + "Disallow: /a\n", "/a", False),
        ("old Macs wrote too", "User-agent: *\rDisallow: /a\r", "/a", False),
        ("space before a colon", "User-agent : *\nDisallow : /a\n", "/a", False),
        ("a version is no name", f"User-agent: {US}/1.0\nDisallow: /a\n", "/a", False),
        ("a part is not the whole", "User-agent: field\nDisallow: /a\n", "/a", True),
        ("nor is more than the whole", f"User-agent: {US}-image\nDisallow: /a\n", "/a", True),
        ("the query is matched", ALL + "Disallow: /*?sid=\n", "/a?sid=3", False),
        ("Crawl-delay splits no group", f"User-agent: {US}\nCrawl-delay: 2\nDisallow: /a\n", "/a", False),
        ("rules without a group are none", "Disallow: /a\nUser-agent: z\nDisallow: /z\n", "/a", True),
        ("a part does not hide *", "User-agent: field\nAllow: /\n\n" + ALL + "Disallow: /a\n", "/a", False),
        ("two slashes are a path", ALL + "Disallow: //x/\n", "//x/y", False),
        ("a soft 404 has no rules", "<!doctype html><html><body>Not found: /</body></html>", "/", True),
    ],
)
def test_rules_of_the_rfc_case_by_case(why: str, text: str, path: str, allowed: bool) -> None:
    assert allows(text, path) is allowed, why


def test_product_token_may_have_a_version() -> None:
    assert not allows(f"User-agent: {US}\nDisallow: /a\n", "/a", product=f"{US}/1.0")


def plain_match(rules: list[tuple[bool, str]], path: str) -> bool:
    """RFC 9309, 2.2.2 and 2.2.3, word for word: the most octets win, and allow wins a tie."""

    def octets(text: str, safe: str) -> str:
        slashes = text.replace("%2F", "%252F").replace("%2f", "%252F")  # an escaped slash is not a slash
        return quote(unquote_to_bytes(slashes), safe=safe + "/?=&:@!'()+,;[]").replace("%252F", "%2F")

    best, allowed = -1, True
    for allow, pattern in rules:
        anchored = pattern.endswith("$")
        wanted = [octets(part, "") for part in pattern.removesuffix("$").split("*")]
        expression = ".*".join(map(re.escape, wanted)) + ("$" if anchored else "")
        if re.match(expression, octets(path, "")):
            length = len("*".join(wanted)) + anchored
            if length > best or (length == best and allow):
                best, allowed = length, allow
    return allowed


paths = st.lists(st.sampled_from(["a", "b", "/", "~", "%7E", ".html", "é", "*", "$", "%2F", "?"]), max_size=6).map(
    lambda parts: "/" + "".join(parts)
)
patterns = st.tuples(
    st.lists(
        st.sampled_from(["a", "b", "/", "*", "~", "%7e", ".html", "é", "%C3%A9", "%2a", "$", "%24", "%2f", "%3F"]),
        max_size=6,
    ).map("".join),
    st.sampled_from(["", "", "$"]),
).map(lambda parts: "/" + parts[0] + parts[1])
rule_lists = st.lists(st.tuples(st.booleans(), patterns), max_size=6)


def written(rules: list[tuple[bool, str]], agent: str = "*") -> str:
    return f"User-agent: {agent}\n" + "".join(
        f"{'Allow' if allow else 'Disallow'}: {pattern}\n" for allow, pattern in rules
    )


@given(rule_lists, paths)
def test_matching_agrees_with_the_text_of_the_rfc(rules: list[tuple[bool, str]], path: str) -> None:
    assert allows(written(rules), path) == plain_match(rules, path)


@given(rule_lists, paths, st.randoms(use_true_random=False))
def test_order_of_rules_does_not_matter(rules: list[tuple[bool, str]], path: str, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(rules, len(rules))
    assert allows(written(rules), path) == allows(written(shuffled), path)


@given(rule_lists, rule_lists, paths)
def test_our_group_replaces_the_group_for_all(
    ours: list[tuple[bool, str]], others: list[tuple[bool, str]], path: str
) -> None:
    text = written(others) + "\n" + written([*ours, (False, "/never")], agent=US)
    assert allows(text, path) == allows(written([*ours, (False, "/never")]), path)


@given(st.binary(max_size=2000), paths)
def test_arbitrary_bytes_never_raise(text: bytes, path: str) -> None:
    RobotsTxt.parse(text, US).allows(path)


def test_rules_that_forbid_everything_allow_robots_txt() -> None:
    forbidden = RobotsTxt.parse((ALL + "Disallow: /\n").encode(), US)
    assert RobotsTxt.ALLOW_ALL.allows("/a")
    assert not forbidden.allows("/a")
    assert forbidden.allows("/robots.txt")


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        (ALL + "Crawl-delay: 2.5\n", 2.5),
        (ALL + "Crawl-delay: 9\nUser-agent: fieldmouse\nCrawl-delay: 1\n", 1.0),
        (ALL + "Crawl-delay: soon\n", None),
        (ALL + "Crawl-delay: -1\n", None),
        (ALL + "Crawl-delay: inf\n", 1e308),
        (ALL + "Crawl-delay: nan\n", None),
        ("User-agent: other\nCrawl-delay: 7\n", None),
    ],
)
def test_crawl_delay_of_our_group_is_read(text: str, delay: float | None) -> None:
    assert RobotsTxt.parse(text.encode(), US).crawl_delay == delay


def test_sitemaps_are_independent_of_groups_and_limited() -> None:
    text = "Sitemap: http://h/1.xml\nUser-agent: other\nDisallow: /\nsitemap: http://h/2.xml\nSitemap: http://h/1.xml\n"
    assert RobotsTxt.parse(text.encode(), US).sitemaps == ("http://h/1.xml", "http://h/2.xml")
    many = "".join(f"Sitemap: http://h/{n}.xml\n" for n in range(5000))
    assert len(RobotsTxt.parse(many.encode(), US).sitemaps) == 1000


def answer(status: int, body: bytes = b"", **headers: str) -> Response:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Response(status, b"", body, b"", "127.0.0.1", 0.0, 0.0, 0.0, named)


URL = Url("http://example.org/robots.txt")
RULES = (ALL + "Disallow: /a\n").encode()


def test_rules_are_read_from_encoded_and_plain_responses() -> None:
    for response in (answer(200, RULES), answer(200, gzip.compress(RULES), content_encoding="gzip")):
        verdict = interpret_response(response, URL, US)
        assert isinstance(verdict, RobotsTxt)
        assert (verdict.allows("/a"), verdict.allows("/b")) == (False, True)


@given(st.integers(100, 999), st.integers(0, 20))
@example(429, 0)
@example(404, 0)
@example(301, MAX_REDIRECTS - 1)
@example(301, MAX_REDIRECTS)
def test_every_status_has_a_meaning(status: int, hops: int) -> None:
    verdict = interpret_response(answer(status, RULES, location="/r"), URL, US, hops)
    if 200 <= status < 300:
        assert isinstance(verdict, RobotsTxt)
        assert not verdict.allows("/a")
    elif status in (301, 302, 303, 307, 308):
        assert (
            verdict == RobotsTxtRedirect(Url("http://example.org/r"))
            if hops < MAX_REDIRECTS
            else verdict is RobotsTxt.ALLOW_ALL
        )
    elif 400 <= status < 500 and status != 429:
        assert verdict is RobotsTxt.ALLOW_ALL
    else:
        assert isinstance(verdict, RobotsTxtUnreachable)


def test_redirect_may_leave_the_host_and_invalid_one_means_no_rules() -> None:
    assert interpret_response(answer(301, location="https://other.example/r"), URL, US) == RobotsTxtRedirect(
        Url("https://other.example/r")
    )
    assert interpret_response(answer(301, location="/r\u00c3\u00a9"), URL, US) == RobotsTxtRedirect(
        Url("http://example.org/r%C3%A9")
    )
    assert interpret_response(answer(301), URL, US) is RobotsTxt.ALLOW_ALL
    assert interpret_response(answer(301, location="/r\u00e9"), URL, US) == RobotsTxtRedirect(
        Url("http://example.org/r%E9")
    )
    assert interpret_response(answer(301, location="mailto:a@b"), URL, US) is RobotsTxt.ALLOW_ALL


def test_failure_is_not_permission() -> None:
    failed = Failed(Request(URL), OutcomeReason.NO_CONNECTION, 0.0, "connection refused")
    assert interpret_response(failed, URL, US) == RobotsTxtUnreachable("connection refused")


@given(st.sampled_from(["", "no-store", "no-cache", "max-age=0", "public, max-age=7200", "max-age=999999999"]))
def test_rules_are_cached_between_an_hour_and_a_day(control: str) -> None:
    kept = cache_seconds(answer(200, cache_control=control))
    assert HOUR <= kept <= DAY
    assert (kept == 7200) == ("7200" in control)


def test_failing_host_is_asked_again_sooner() -> None:
    assert cache_seconds(answer(404)) == cache_seconds(answer(200)) == DAY
    assert cache_seconds(answer(503)) == cache_seconds(answer(429)) == HOUR
    assert cache_seconds(Failed(Request(URL), OutcomeReason.TIMEOUT, 0.0)) == HOUR
