"""Tests of page comparison: laws of the alignment, and places of differences."""

from __future__ import annotations

import itertools
import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.diff.compare import (
    MOVED_PLACE,
    _longest_common,
    align_equal_elements,
    compare_versions,
    diff_segments,
    mask_variable_parts,
)
from fieldmouse.diff.text_blocks import MAX_BLOCKS, text_blocks
from fieldmouse.policy.noise_rules import NoiseRules
from workers.responses import response

words = st.sampled_from("mouse vole shrew harvest field barn owl fox 7 12:31 Nov".split())
block = st.lists(words, min_size=1, max_size=5).map(" ".join)
versions = st.lists(block, max_size=12)


@given(versions, versions)
def test_aligned_pairs_ascend_and_are_equal(old: list[str], new: list[str]) -> None:
    pairs = align_equal_elements(old, new)
    assert all(old[i] == new[j] for i, j in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(pairs))


def test_blocks_unique_within_a_gap_are_aligned() -> None:
    old = ["A", "p", "q", "B", "q", "p", "C"]
    new = ["A", "z", "p", "y", "B", "w", "q", "v", "C"]
    assert align_equal_elements(old, new, table=0) == [(0, 0), (1, 2), (3, 4), (4, 6), (6, 8)]


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.sampled_from("abc"), max_size=9))
def test_table_alignment_finds_the_longest_common_subsequence(old: list[str], new: list[str]) -> None:
    def longest(i: int, j: int) -> int:
        if i == len(old) or j == len(new):
            return 0
        if old[i] == new[j]:
            return 1 + longest(i + 1, j + 1)
        return max(longest(i + 1, j), longest(i, j + 1))

    assert len(_longest_common(old, new, 0, len(old), 0, len(new))) == longest(0, 0)


@given(versions, versions)
def test_steps_reproduce_both_versions_in_order(old: list[str], new: list[str]) -> None:
    told = list(diff_segments(old, new))
    assert [block for step in told for block in step.old] == old
    assert [block for step in told for block in step.new] == new
    assert all(step.equal for step in told) == (old == new)


@given(versions, versions)
def test_comparison_is_symmetric_and_empty_only_for_equal_blocks(old: list[str], new: list[str]) -> None:
    seen, back = compare_versions(old, new), compare_versions(new, old)
    assert bool(seen.differences) == (old != new) == bool(back.differences)
    assert 0.0 <= seen.changed_share() <= 1.0
    assert (seen.changed_share() > 0) == (old != new)


@given(versions, st.integers(0, 12))
def test_inserted_paragraph_is_the_only_difference(old: list[str], at: int) -> None:
    story = "once upon a time " * 10
    new = [*old[:at], story.strip(), *old[at:]]
    (only,) = compare_versions(old, new).differences
    assert only == (0, 40), "a text that somebody wrote is at no place that could be noise"


@given(versions, versions)
def test_all_words_of_unrelated_versions_differ(old: list[str], new: list[str]) -> None:
    apart = [" ".join(f"x{word}x" for word in block.split()) for block in new]
    assert compare_versions(old, apart).changed_share() == (1.0 if old or new else 0.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Served 2026-11-16T12:31:05Z", "Served 2026-11-17T08:00:00Z"),
        ("Mon, 16 Nov 2026, 12:31 p.m.", "Tue, 1 Dec 2026, 9:05 a.m."),
        ("1,234 visitors", "987 visitors"),
        ("Posted 1 hour ago", "Posted 59 minutes ago"),
        ("request 7f3a9c2b-11aa", "request 00ff41e9-ab12"),
    ],
)
def test_dates_counters_and_tokens_are_masked(one: str, other: str) -> None:
    assert mask_variable_parts(one) == mask_variable_parts(other)
    (seen,) = compare_versions(["above", one, "below"], ["above", other, "below"]).differences
    (again,) = compare_versions(["top", other, "end"], ["top", one, "end"]).differences
    assert seen.place == again.place > MOVED_PLACE, "it is known again, whatever stands around it"


def test_a_few_words_are_recognized_by_their_neighbouring_blocks() -> None:
    def quoting(quote: str) -> list[str]:
        return ["Quote of the day", quote, "Imprint"]

    first, second = (
        compare_versions(quoting("be quick"), quoting("be slow")),
        compare_versions(quoting("be slow"), quoting("a b")),
    )
    assert first.differences[0].place == second.differences[0].place > MOVED_PLACE
    elsewhere = compare_versions(["News", "be quick", "Imprint"], ["News", "be slow", "Imprint"])
    assert elsewhere.differences[0].place != first.differences[0].place


def test_new_entry_of_a_growing_list_has_a_new_place_each_time() -> None:
    lists = [["News", *(f"Story {'abcdefgh'[k]}" for k in range(n, -1, -1)), "Imprint"] for n in range(4)]
    places = [compare_versions(old, new).differences[0].place for old, new in itertools.pairwise(lists)]
    assert len(set(places)) == len(places)


def test_shuffled_list_differs_only_in_order() -> None:
    names = [f"sponsor {letter}" for letter in "abcdefgh"]
    mixed = random.Random(3).sample(names, len(names))
    assert [one.place for one in compare_versions(["top", *names], ["top", *mixed]).differences] == [MOVED_PLACE]


N = 20_000
HOSTILE = {
    "nothing in common": ([f"a{k} x" for k in range(N)], [f"b{k} x" for k in range(N)]),
    "two blocks by turns": (["a", "b"] * N, ["b", "a"] * N),
    "shuffled": ([f"{k:x}" for k in range(N)], random.Random(1).sample([f"{k:x}" for k in range(N)], N)),
    "one long word": (["a" * (1 << 20)], ["b" * (1 << 20)]),
    "one long number": (["1 (" * (1 << 18)], ["2" + " ;" * (1 << 19)]),
    "each round finds one": ([f"{k // 2}" for k in range(N)], [f"{k // 3}" for k in range(N)]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_adversarial_pages_are_compared_in_few_steps(name: str) -> None:
    """Counts executed Python lines per block: independent of the machine's speed, and a quadratic algorithm
    shows."""
    old, new = HOSTILE[name]
    lines = 0

    def count(frame: object, event: str, arg: object) -> object:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]
    try:
        seen = compare_versions(old[: N // 10], new[: N // 10])
    finally:
        sys.settrace(before)
    assert seen.differences
    assert lines < 200 * (N // 5) + 2000
    assert compare_versions(old, new).differences


def html(*blocks: str) -> list[str] | None:
    body = "".join(f"<p>{block}</p>\n" for block in blocks).encode()
    return text_blocks(response(body), body)


def test_invisible_markup_gives_no_blocks() -> None:
    plain = b"<title>Mice</title><div>Field mice <b>r</b>un.</div><p>Far."
    dressed = (
        b"<!-- 4711 --><html><head><meta name=csrf content=x1><title>\n Mice</title><style>p{}</style></head>"
        b"<body class=v2><div data-token=88>Field  mice <span>r</span>un.<input type=hidden value=t9></div>"
        b"<script nonce=abc>x()</script><p>Far.</p></body></html>"
    )
    assert text_blocks(response(plain), plain) == text_blocks(response(dressed), dressed)
    assert text_blocks(response(plain), plain) == ["Mice", "Field mice run.", "Far."]


def test_blocks_are_lines_of_text_values_of_json_and_none_for_images() -> None:
    def read(body: bytes, mime: str) -> list[str] | None:
        return text_blocks(response(body, mime=mime), body)

    assert read(b"one\n\n two\r\n", "text/plain") == ["one", "two"]
    assert read(b'{"a":1,"b":[2]}', "application/json") == read(b'{"a": 1,\n"b": [2]}', "application/ld+json")
    assert read(b"[" * 100_000, "application/json") == ["[" * 100_000]
    assert read(b"\x89PNG", "image/png") is None
    assert read(b"%PDF", "application/pdf") is None


def test_blocks_beyond_the_limit_are_joined_into_one() -> None:
    many = html(*(f"b{k}" for k in range(MAX_BLOCKS + 5)))
    assert many is not None
    assert MAX_BLOCKS <= len(many) <= MAX_BLOCKS + 1
    assert many[-1].endswith(f"b{MAX_BLOCKS + 4}")


def test_xpath_rule_sees_the_browsers_tree_and_gives_up_on_deep_nesting() -> None:
    def read(page: str, rule: str) -> list[str] | None:
        return text_blocks(response(page.encode()), page.encode(), NoiseRules.from_texts([rule]))

    table = "<table><tr><td>3 euro<td class=q a:b=1 \x0bc=2>kept</table><svg><x:y>drawn</x:y></svg>"
    assert read(table, "* xpath /html/body/table/tbody/tr/td[1]") == ["kept", "drawn"]
    assert read(table, "* xpath //*[contains(text(), 'drawn')]") == ["3 euro", "kept"]
    assert read(table, "* xpath //td/@class | //td/text()") == ["3 euro", "kept", "drawn"], "elements only"
    assert read("<p>a<p><b>b</b>", "* xpath //p | //b") == []
    maze = "<div>" * 3000 + "deep"
    assert read(maze, "* xpath //div//div") == ["deep"]
