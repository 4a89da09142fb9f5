"""Interpretation of responses that have no document to read, for their URL and the indexed version."""

from __future__ import annotations

from typing import NamedTuple

from fieldmouse.indexer.parse import Rules, read_robots_tag
from fieldmouse.indexer.wire import IndexerConfig
from fieldmouse.outcome import OutcomeKind
from fieldmouse.records import GONE, Failed, Moved, Page, Reason, Response, Unchanged


class Meaning(NamedTuple):
    """Values for the row in the outcome log."""

    kind: OutcomeKind
    reason: Reason = Reason.NONE
    detail: str = ""
    target: str = ""
    leaves: bool = False  # the indexed version must be removed from search
    unlisted: bool = False
    gone: bool = False


def meaning_of(outcome: Page | Unchanged | Moved | Failed, config: IndexerConfig) -> Meaning:
    """Interpret every outcome except a page to be read. Only a re-crawled URL has an indexed version."""
    link = outcome.link
    if isinstance(outcome, Failed):
        gone = outcome.response is not None and outcome.response.status in GONE
        excluded = outcome.reason is Reason.EXCLUDED
        kind = OutcomeKind.REFUSED if excluded else OutcomeKind.FAILED
        leaves = link.again and (gone or excluded)
        return Meaning(kind, outcome.reason, outcome.detail, leaves=leaves, gone=gone)
    if isinstance(outcome, Moved):
        return Meaning(OutcomeKind.MOVED, target=outcome.target, leaves=outcome.for_good)
    if isinstance(outcome, Unchanged):
        return unchanged(outcome.response, config, polled=bool(link.was))
    return Meaning(OutcomeKind.PAGE)


def unchanged(response: Response, config: IndexerConfig, *, polled: bool) -> Meaning:
    """Interpret an unchanged page; its headers may forbid indexing now."""
    rules = Rules()
    for name, value in response.headers:
        if name == "x-robots-tag":
            read_robots_tag(value, rules, config.robot)
    unlisted = polled and rules.noindex and config.nofollow
    return Meaning(OutcomeKind.UNCHANGED, leaves=unlisted, unlisted=unlisted)
