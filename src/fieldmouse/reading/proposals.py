"""Rules for `[noise]`, proposed from what differs at every look.

The stored versions of pages that were polled often enough are compared one after the other. Where the
same place differed each time, the smallest element around it that has a name of its own is looked
for in the page; without one, the block itself is described by a regular expression. A rule is proposed
for a host if it silences such a place on its pages, and is tried on them before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from fieldmouse.crawldir import Checkpoint, CrawlDir, outcomes
from fieldmouse.errors import CrawlDirError
from fieldmouse.indexer.comparison import ORDER, hunks, template
from fieldmouse.indexer.library import Library
from fieldmouse.indexer.noise import RUNNING
from fieldmouse.policy.noiserules import NoiseRules, read_rule
from fieldmouse.reading.moment import sealed_outcomes
from fieldmouse.reading.page import StoredPage
from fieldmouse.reading.versions import versions_of
from fieldmouse.records import OutcomeRow
from fieldmouse.settings import Settings
from fieldmouse.settings.rules import noise_of
from fieldmouse.url import host_of

PAGES = 50  # looked at of one host
ELEMENTS = 5000  # looked at of one page
_SELECTABLE = re.compile(
    r"[A-Za-z][A-Za-z_-]*", re.ASCII
)  # a name with a number in it may be another tomorrow


class RuleProposal(msgspec.Struct, frozen=True):
    """A rule as `[noise]` takes it, and what speaks for it."""

    rule: str
    pages: int  # on which it silences something that differs at every look
    looked: int  # pages of that host that were polled often enough to tell
    sample: str  # what differs, on one of them


def propose(
    home: CrawlDir, last: Checkpoint, library: Library, settings: Settings,
    is_wanted: Callable[[str], bool] | None,
) -> list[RuleProposal]:  # fmt: skip
    """What differs at every look, as rules; those that silence most come first."""
    rules = noise_of(settings)
    found: dict[str, dict[str, str]] = defaultdict(dict)  # by rule: page and sample
    looked: dict[str, int] = defaultdict(int)
    for rows in _polled_often(home, sealed_outcomes(last), is_wanted):
        host = host_of(rows[-1].url).partition("://")[2]
        looked[host] += 1
        try:
            for what, sample in _noise_of([StoredPage(row, library) for row in rows], rules):
                found[f"{host} {what}"][rows[-1].url] = sample
        except CrawlDirError:
            continue  # a damaged archive proposes nothing
    proposals = [
        RuleProposal(rule, len(pages), looked[rule.split(" ", 1)[0]], next(iter(pages.values())))
        for rule, pages in found.items()
    ]
    return sorted(proposals, key=lambda one: (-one.pages, one.rule))


def _polled_often(
    home: CrawlDir, length: int, is_wanted: Callable[[str], bool] | None
) -> Iterator[list[OutcomeRow]]:
    """The newest versions of pages with at least `RUNNING` differences, some of each host."""
    rows: dict[str, list[OutcomeRow]] = {}
    hosts: dict[str, int] = defaultdict(int)
    often = {url for url, times in _times(home, length).items() if times > RUNNING}
    for row in outcomes.rows(home, length=length):
        if row.url not in often or (is_wanted is not None and not is_wanted(row.url)):
            continue
        if row.url not in rows:
            hosts[host_of(row.url)] += 1
            if hosts[host_of(row.url)] > PAGES:
                continue
        rows.setdefault(row.url, []).append(row)
    for told in rows.values():
        versions = versions_of(told)[-RUNNING - 1 :]
        if len(versions) > RUNNING:
            yield versions


def _times(home: CrawlDir, length: int) -> dict[str, int]:
    times: dict[str, int] = defaultdict(int)
    for row in outcomes.rows(home, length=length):
        if row.warc and row.found_as not in ("sitemap", "feed"):
            times[row.url] += 1
    return times


def _noise_of(versions: list[StoredPage], rules: NoiseRules) -> Iterator[tuple[str, str]]:
    """Rules, without where, for places that differ between every two versions, and what is there now."""
    seen = _differing(versions, rules)
    if not seen:
        return
    for place in sorted(set.intersection(*(set(places) for places in seen)) - {0, ORDER}):
        sample = seen[-1][place]
        for what in _rules_for(versions[-1], sample):
            stricter = msgspec.structs.replace(rules, ignore=(*rules.ignore, read_rule(f"* {what}")))
            silenced = _differing(versions, stricter)
            if all(len(after) < len(before) for before, after in zip(seen, silenced, strict=True)):
                yield what, sample[:200]
                break


def _differing(versions: list[StoredPage], rules: NoiseRules) -> list[dict[int, str]]:
    """Between every two versions, the places that differ and what is there in the newer one."""
    blocks = [version.blocks(rules) for version in versions]
    found = []
    for old, new in pairwise(blocks):
        if old is None or new is None:
            return []
        found.append({hunk.place: " ".join(hunk.new) for hunk in hunks(old, new)})
    return found


def _rules_for(page: StoredPage, sample: str) -> Iterator[str]:
    """Ways to point at a text of a page, the best first."""
    if sample and page.mime in ("text/html", "application/xhtml+xml", ""):
        yield from (f"css {selector}" for selector in _selectors(page.body, sample))
    words = re.split(r"0", template(sample))
    pattern = r"[\w\s.,:;/+'()-]+".join(re.escape(part).replace(r"\ ", " ") for part in words)
    if re.search(r"[^\W\d_]{3}", "".join(words)):  # something of it must stay the same
        yield f"regex {pattern}"


def _selectors(body: bytes, sample: str) -> Iterator[str]:
    """Selectors of named elements around a text, the smallest first."""
    wanted = sample.split()
    around: list[tuple[int, str]] = []
    for node in LexborHTMLParser(body).css("[id], [class]")[:ELEMENTS]:
        text = node.text().split()
        if len(wanted) <= len(text) <= 3 * len(wanted) + 20 and " ".join(wanted) in " ".join(text):
            around += [(len(text), selector) for selector in _names(node)]
    for _, selector in sorted(around):
        yield selector


def _names(node: LexborNode) -> Iterator[str]:
    attributes = node.attributes
    own = attributes.get("id") or ""
    if _SELECTABLE.fullmatch(own):
        yield f"#{own}"
    classes = [name for name in (attributes.get("class") or "").split() if _SELECTABLE.fullmatch(name)]
    if classes:
        yield f"{node.tag}.{'.'.join(classes)}"
