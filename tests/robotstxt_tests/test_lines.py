"""Tests of the lines of robots.txt: the grammar of RFC 9309 (2.2) and the tolerance of Google's parser."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from protego import Protego

from fieldmouse.robotstxt.parser import (
    MAX_SIZE,
    SLOW_SIZE,
    RobotsTxt,
    RobotsTxtUnreachable,
    interpret_response,
    is_slow_to_parse,
)
from fieldmouse.types.outcome import Response
from fieldmouse.url import Url

US = "fieldmouse"


def allows(text: bytes, path: str, product: str = US) -> bool:
    return RobotsTxt.parse(text, product).allows(path)


# These lines do not belong to the grammar of a group, so they cannot end its User-agent lines.
STRANGERS = (
    b"|Sitemap: http://h/s.xml|Crawl-delay: 5|Host: example.org|Clean-param: s /forum/|"
    b"Request-rate: 1/5|Visit-time: 0600-0845|Noindex: /x|Content-Signal: ai-train=no|foo: bar|foo|"
    b"foo bar baz|:|# comment|  |<html>|\xfd\xff\xfe|unknown-agent: a|dis-allow: /"
).split(b"|")


@given(
    st.permutations(["other", US, "third"]),
    st.lists(st.lists(st.sampled_from(STRANGERS), max_size=3), min_size=4, max_size=4),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
)
def test_only_rules_separate_user_agent_lines(names: list[str], between: list[list[bytes]], end: bytes) -> None:
    lines: list[bytes] = []
    for strangers, name in zip(between, names, strict=False):
        lines += [*strangers, b"User-agent: " + name.encode()]
    lines += [*between[3], b"Disallow: /secret", b"User-agent: fourth", b"Disallow: /", b""]
    text = end.join(lines)
    assert not allows(text, "/secret")
    assert allows(text, "/open")


@pytest.mark.parametrize("rule", [b"Disallow:", b"Disallow: /x", b"Allow: /x", b"Disallow: no-slash", b"disalow: /x"])
def test_every_rule_even_an_empty_one_ends_user_agent_lines(rule: bytes) -> None:
    text = b"User-agent: fieldmouse\n" + rule + b"\nUser-agent: other\nDisallow: /secret\n"
    assert allows(text, "/secret")


@pytest.mark.parametrize(
    "inside",
    [b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e", b"\x85", "\x85".encode(), "\u2028".encode(), "\u2029".encode()],
)
def test_only_cr_and_lf_end_a_line(inside: bytes) -> None:
    assert allows(b"User-agent: *\nDisallow: /a" + inside + b"Disallow: /b\n", "/b")
    assert allows(b"User-agent: *\n# comment " + inside + b"Disallow: /b\n", "/b")
    for end in (b"\n", b"\r", b"\r\n", b"\r\r", b"\n\n"):
        assert not allows(b"User-agent: *" + end + b"Disallow: /b" + end, "/b")


BYTES_BEFORE = b"\xef\xbb\xbf|\xef\xbb|\xef| |\t|\0|\xa0".split(b"|")
TEXT_BEFORE = "\u00a0|\u00a0 \t|\u2003|\u3000|\u200b|\ufeff \ufeff".split("|")


@pytest.mark.parametrize("before", [*BYTES_BEFORE, *(text.encode() for text in TEXT_BEFORE)])
def test_byte_order_marks_and_blanks_before_a_line_are_skipped(before: bytes) -> None:
    assert not allows(before + b"User-agent: *\n" + before + b"Disallow: /a\n", "/a")
    assert not allows(b"User-agent:" + before + b"*\nDisallow:" + before + b"/a\n", "/a")


def test_blanks_behind_a_rule_are_not_part_of_it() -> None:
    for behind in (b" ", b"\t ", "\u00a0".encode(), b" # comment", "\u2003\u00a0#".encode()):
        assert not allows(b"User-agent: *\nDisallow: /a" + behind + b"\n", "/a")
    # but the second byte of a letter is not a blank
    assert not allows("User-agent: *\nDisallow: /à\n".encode(), "/%C3%A0")
    assert allows("User-agent: *\nDisallow: /à\n".encode(), "/%C3")


@given(st.integers(0x80, 0xFF), st.integers(0x80, 0xFF))
@example(0xE9, 0xE8)
def test_different_bytes_are_different_in_any_encoding(written: int, asked: int) -> None:
    text = b"User-agent: *\nDisallow: /x" + bytes([written]) + b"y\n"
    assert allows(text, f"/x%{asked:02X}y") == (written != asked)
    assert allows(text, f"/x%{asked:02x}y") == (written != asked)
    assert allows(text, "/x%EF%BF%BDy")


def test_utf_16_file_with_byte_order_mark_is_read() -> None:
    for text in ("User-agent: *\nDisallow: /a\n", "User-agent: *\r\nDisallow: /a"):
        assert not allows(text.encode("utf-16"), "/a")
        assert not allows(b"\xfe\xff" + text.encode("utf-16-be"), "/a")


@pytest.mark.parametrize(
    "field", ["Disallow", "disallow", "DISALLOW", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"]
)
@pytest.mark.parametrize("colon", [":", ": ", " : ", "\t:\t", " ", "\t"])
@pytest.mark.parametrize("agent", ["User-agent", "useragent", "User agent", "USER-AGENT"])
def test_typing_errors_that_google_accepts_are_accepted(field: str, colon: str, agent: str) -> None:
    text = f"{agent}{colon}*\n{field}{colon}/a\n".encode()
    assert (allows(text, "/a"), allows(text, "/b")) == (False, True)


@pytest.mark.parametrize("field", ["Disallowed", "Disallows", "disallow all", "dissalowed", "Disallow-", "disalowx"])
@pytest.mark.parametrize("agent", ["User-agents", "useragentname", "User Agents", "user-agent(s)"])
def test_key_matches_by_prefix(field: str, agent: str) -> None:
    text = f"{agent}: *\n{field}: /a\nAllowed: /a/b\nSitemaps: http://h/s.xml\n".encode()
    assert (allows(text, "/a"), allows(text, "/a/b"), allows(text, "/b")) == (False, True, True)
    assert RobotsTxt.parse(text, US).sitemaps == ("http://h/s.xml",)


def test_blanks_replace_the_colon_only_between_two_words() -> None:
    assert not allows(b"User-agent *\nDisallowed /a # comment\n", "/a")
    assert allows(b"User-agent: *\nDisallow all robots\nDisallow /a b\n", "/a b")
    # The first colon ends the key.
    assert not allows(b"User-agent: *\nDisallow for all robots: /a\n", "/a")


def test_index_page_is_recognized_by_prefix() -> None:
    text = b"User-agent: *\nDisallow: /\nAllow: /a/index.htmlx\nAllow: index.html\n"
    assert (allows(text, "/a/"), allows(text, "/")) == (True, False)


@pytest.mark.parametrize(
    "field", ["Dis-allow", "Disalllow", "Forbid", "xDisallow", "// Disallow", "-Disallow", "Noindex"]
)
def test_other_words_are_not_rules(field: str) -> None:
    assert allows(f"User-agent: *\n{field}: /a\n".encode(), "/a")


OURS = (
    "fieldmouse|FIELDMOUSE|fieldmouse/0.1|fieldmouse 1.0|fieldmouse (compatible)|fieldmouse*|"
    "fieldmouse # us|\u00a0fieldmouse"
)
OTHERS = "field|mouse|fieldmouse-news|fieldmouse_2|xfieldmouse|Mozilla/5.0 fieldmouse||**|*bot|/"


@pytest.mark.parametrize("name", [*OURS.split("|"), *OTHERS.split("|")])
def test_a_group_is_ours_if_it_has_our_product_token(name: str) -> None:
    ours, text = name in OURS.split("|"), f"User-agent: {name}\nDisallow: /a\n".encode()
    assert allows(text, "/a") != ours
    assert allows(text + b"User-agent: *\nDisallow: /b\n", "/b") == ours


@pytest.mark.parametrize("product", ["mybot2", "my.bot", "bot-2.1x"])
def test_product_with_digits_matches_by_its_whole_name(product: str) -> None:
    text = f"User-agent: {product}/7 (x)\nDisallow: /a\n".encode()
    assert not allows(text, "/a", product + "/1.0")
    assert allows(text, "/a", product + "9")


def test_star_followed_by_letters_is_not_the_group_for_all() -> None:
    assert not allows(b"User-agent: * bot\nDisallow: /a\n", "/a")
    assert allows(b"User-agent: *bot\nDisallow: /a\n", "/a")


def test_allowing_the_index_page_allows_its_directory() -> None:
    for page in ("index.html", "index.htm"):
        text = f"User-agent: *\nDisallow: /\nAllow: /d/{page}\n".encode()
        assert [allows(text, path) for path in ("/d/", f"/d/{page}", "/d/x", "/")] == [True, True, False, False]


# -- files cut at a limit


def answer(body: bytes, truncated: str = "", encoding: str = "") -> Response:
    headers = (("content-encoding", encoding),) if encoding else ()
    return Response(200, b"", body, b"", "127.0.0.1", 0.0, 0.0, 0.0, headers, truncated)


def verdict(response: Response) -> RobotsTxt:
    rules = interpret_response(response, Url("http://example.org/robots.txt"), US)
    assert isinstance(rules, RobotsTxt)
    return rules


RULES = b"User-agent: *\nAllow: /open\nDisallow: /private/x\r\nDisallow: /z\rDisallow: /private/y\n"


@given(st.integers(0, len(RULES)))
def test_cut_file_has_only_its_complete_lines(cut: int) -> None:
    """For any limit, a path forbidden by the cut file is forbidden by the whole file, too."""
    rules = verdict(answer(RULES[:cut], "length"))
    whole = verdict(answer(RULES))
    kept = max(RULES[:cut].rfind(b"\n"), RULES[:cut].rfind(b"\r")) + 1
    for path in ("/", "/p", "/private", "/private/x", "/private/y", "/z", "/open"):
        assert rules.allows(path) == allows(RULES[:kept], path)
        assert rules.allows(path) or not whole.allows(path)


def test_last_line_of_a_complete_file_needs_no_end() -> None:
    assert not verdict(answer(RULES.rstrip())).allows("/private/y")
    assert not verdict(answer(RULES.rstrip(), encoding="gzip")).allows("/private/y")  # declared as encoded, but is not


def test_file_decoded_beyond_the_limit_loses_its_last_partial_line() -> None:
    head = b"User-agent: *\n"
    filler = b"#" * (MAX_SIZE - len(head) - len(b"\nDisallow: /"))
    text = head + filler + b"\nDisallow: /private/x\nDisallow: /late\n"
    assert text[:MAX_SIZE].endswith(b"Disallow: /")
    for response in (answer(gzip.compress(text), encoding="gzip"), answer(text[:MAX_SIZE], "length")):
        rules = verdict(response)
        assert [rules.allows(path) for path in ("/", "/private/x", "/late")] == [True] * 3


@pytest.mark.parametrize("why", ["time", "disconnect"])
def test_incomplete_file_is_not_permission(why: str) -> None:
    assert isinstance(
        interpret_response(answer(RULES, why), Url("http://example.org/robots.txt"), US), RobotsTxtUnreachable
    )


def test_slow_files_are_recognized_encoded_or_plain() -> None:
    short, long = b"#" * 100 + b"\n", b"#" * (SLOW_SIZE + 1)
    for body, expected in ((short, False), (long, True)):
        assert is_slow_to_parse(answer(body)) is expected
        assert is_slow_to_parse(answer(gzip.compress(body), encoding="gzip")) is expected


# -- against another parser


fields = st.sampled_from(["User-agent", "Disallow", "Allow"])
values = {
    "User-agent": st.sampled_from(["*", US, "other"]),
    "Disallow": st.sampled_from(["", "/", "/a", "/a*b", "/*c$", "/a/b", "/é"]),
    "Allow": st.sampled_from(["/", "/a", "/a/b*", "/*.c$"]),
}
lines = fields.flatmap(lambda field: values[field].map(lambda value: f"{field}: {value}"))


@given(st.lists(lines, max_size=12), st.sampled_from(["/", "/a", "/ab", "/a/b/c", "/x.c", "/%C3%A9", "/a/xb"]))
def test_plain_files_parse_as_in_protego(written: list[str], path: str) -> None:
    text = "\n".join(written)
    assert allows(text.encode(), path) == Protego.parse(text).can_fetch(f"http://h{path}", US)
