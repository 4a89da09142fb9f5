"""Proposals of `[noise]` rules for page parts that differ at every look.

The stored versions of frequently polled pages are compared one after the other. Where the same place
differs each time, the rule selects the smallest element around it that has an id or class; without one, a
regular expression describes the block. A rule is proposed for a host if it silences such a place; it is
tested on the pages first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from fieldmouse.diff.change_detection import POLLS_TO_LEARN
from fieldmouse.diff.compare import MOVED_PLACE, find_hunks, mask_variable_parts
from fieldmouse.errors import CrawlDirError
from fieldmouse.policy.noise_rules import NoiseRules, parse_rule
from fieldmouse.reader.page import StoredPage
from fieldmouse.reader.snapshot import CrawlSnapshot
from fieldmouse.reader.versions import versions_of
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.url import host_of

PAGES_PER_HOST = 50  # examined per host
ELEMENTS_PER_PAGE = 5000  # examined per page
_SELECTABLE = re.compile(r"[A-Za-z][A-Za-z_-]*", re.ASCII)  # names with digits may change


class RuleProposal(msgspec.Struct, frozen=True):
    """A rule in the syntax of `[noise]`, and its evidence."""

    rule: str
    pages: int  # on which it silences a place that differs at every look
    looked: int  # pages of the host with enough polls
    sample: str  # the differing text on one of them


def propose_noise_rules(
    crawl: CrawlSnapshot, rules: NoiseRules, is_wanted: Callable[[str], bool]
) -> list[RuleProposal]:
    """Rules for places that differ at every look; those that silence most pages first."""
    samples: dict[str, dict[str, str]] = defaultdict(dict)  # by rule: page and sample
    looked = Counter[str]()
    for rows in _versions_of_often_polled_pages(crawl, is_wanted):
        host = host_of(rows[-1].url).partition("://")[2]
        looked[host] += 1
        try:
            for what, sample in _rules_for_page(list(map(crawl.page_of_row, rows)), rules):
                samples[f"{host} {what}"][rows[-1].url] = sample
        except CrawlDirError:
            continue  # skip pages whose archive is damaged
    proposals = [
        RuleProposal(rule, len(pages), looked[rule.split(" ", 1)[0]], next(iter(pages.values())))
        for rule, pages in samples.items()
    ]
    return sorted(proposals, key=lambda proposal: (-proposal.pages, proposal.rule))


def _versions_of_often_polled_pages(
    crawl: CrawlSnapshot, is_wanted: Callable[[str], bool]
) -> Iterator[list[OutcomeRow]]:
    """Newest versions of pages with `POLLS_TO_LEARN` differences or more, at most `PAGES_PER_HOST` a host."""
    rows: dict[str, list[OutcomeRow]] = {}
    hosts = Counter[str]()
    times = Counter(row.url for row in crawl.rows() if row.warc and row.found_as not in ("sitemap", "feed"))
    for row in crawl.rows():
        if times[row.url] <= POLLS_TO_LEARN or not is_wanted(row.url):
            continue
        if row.url not in rows:
            hosts[host_of(row.url)] += 1
            if hosts[host_of(row.url)] > PAGES_PER_HOST:
                continue
        rows.setdefault(row.url, []).append(row)
    for page_rows in rows.values():
        versions = versions_of(page_rows)[-POLLS_TO_LEARN - 1 :]
        if len(versions) > POLLS_TO_LEARN:
            yield versions


def _rules_for_page(versions: list[StoredPage], rules: NoiseRules) -> Iterator[tuple[str, str]]:
    """Rules, without host, for places that differ between every two versions, each with the present text."""
    seen = _differing_places(versions, rules)
    if not seen:
        return
    for place in sorted(set.intersection(*(set(places) for places in seen)) - {0, MOVED_PLACE}):
        sample = seen[-1][place]
        for what in _rules_matching_text(versions[-1], sample):
            stricter = msgspec.structs.replace(rules, ignore=(*rules.ignore, parse_rule(f"* {what}")))
            silenced = _differing_places(versions, stricter)
            if all(len(after) < len(before) for before, after in zip(seen, silenced, strict=True)):
                yield what, sample[:200]
                break


def _differing_places(versions: list[StoredPage], rules: NoiseRules) -> list[dict[int, str]]:
    """For every two adjacent versions, the places that differ and their text in the newer one."""
    blocks = [version.blocks(rules) for version in versions]
    differences = []
    for old, new in pairwise(blocks):
        if old is None or new is None:
            return []
        differences.append({hunk.place: " ".join(hunk.new) for hunk in find_hunks(old, new)})
    return differences


def _rules_matching_text(page: StoredPage, sample: str) -> Iterator[str]:
    """Rules that match a text of a page, the best first."""
    if sample and page.mime in ("text/html", "application/xhtml+xml", ""):
        yield from (f"css {selector}" for selector in _css_selectors_around(page.body, sample))
    words = re.split(r"0", mask_variable_parts(sample))
    pattern = r"[\w\s.,:;/+'()-]+".join(re.escape(part).replace(r"\ ", " ") for part in words)
    if re.search(r"[^\W\d_]{3}", "".join(words)):  # some part must be constant
        yield f"regex {pattern}"


def _css_selectors_around(body: bytes, sample: str) -> Iterator[str]:
    """Selectors of named elements around a text, the smallest first."""
    wanted = sample.split()
    around: list[tuple[int, str]] = []
    for node in LexborHTMLParser(body).css("[id], [class]")[:ELEMENTS_PER_PAGE]:
        text = node.text().split()
        if len(wanted) <= len(text) <= 3 * len(wanted) + 20 and " ".join(wanted) in " ".join(text):
            around += [(len(text), selector) for selector in _node_selectors(node)]
    for _, selector in sorted(around):
        yield selector


def _node_selectors(node: LexborNode) -> Iterator[str]:
    attributes = node.attributes
    name = attributes.get("id") or ""
    if _SELECTABLE.fullmatch(name):
        yield f"#{name}"
    classes = [name for name in (attributes.get("class") or "").split() if _SELECTABLE.fullmatch(name)]
    if classes:
        yield f"{node.tag}.{'.'.join(classes)}"
