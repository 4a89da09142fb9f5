"""Refresh of a crawl: known pages are polled, planned and run like any crawl."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from fieldmouse.api.background_run import BackgroundRun
from fieldmouse.api.crawl_preparation import CrawlPlan, plan_to_resume
from fieldmouse.config.old_spellings import accept_old_arguments
from fieldmouse.config.sections import RefreshRunMode
from fieldmouse.errors import UsageError, shell_quoted
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_counters
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.stats import Summary


def plan_to_refresh(
    directory: Path, words: Mapping[str, object], changes: Mapping[str, object], *, once: bool, rest: bool
) -> CrawlPlan:
    """Plan polls of a crawl that has pages. Its own limits do not hold for them; `time` among the words does.

    `rest` also fetches the URLs that still wait.
    """
    timed = words.get("time") not in (None, 0, "0", "0s")
    if once and timed:
        raise UsageError(
            "a refresh ends after one round or after some time, not both",
            "say --once or --for, or neither to refresh until it is stopped",
        )
    home = CrawlDir.open(directory)
    tally = sealed_counters(read_checkpoint(home))
    if not tally.pages and not tally.polled.polls:
        raise UsageError(
            f"the crawl in `{directory}` has no page yet, so there is nothing to refresh",
            f"`fieldmouse resume {shell_quoted(directory)}` goes on with it",
        )
    words = {**words, "pages": 0, "time": words["time"] if timed else "0s"}
    plan = plan_to_resume(directory, words, changes)
    return replace(plan, refresh_order=RefreshRunMode(once, hold_waiting=not rest, refresh_only=True))


@accept_old_arguments
def refresh(
    directory: str | os.PathLike[str],
    *,
    budget: str | None = None,
    policy: str | None = None,
    once: bool = False,
    time: float | str | None = None,
    rest: bool = False,
    delay: float | str | None = None,
    concurrency: int | None = None,
    contact: str | None = None,
    allow_private: bool | None = None,
    resolve: Iterable[str] | None = None,
    settings: Mapping[str, object] | None = None,
) -> Summary:
    """Poll the known pages of the crawl in `directory`, and return the summary.

    budget: polls, as a rate such as "500/h"; None takes the value of `fieldmouse.toml`, "none" polls
        as fast as politeness allows.
    policy: how the budget is spread: "learned", "uniform", ...; or "package.module:Class".
    once: end when every known page was polled once and the pages discovered by that are fetched.
    time: end after this number of seconds, or text such as "1d". Without `time` and `once` the refresh
        runs until Ctrl-C.
    rest: also fetch the URLs that were still waiting when the crawl was stopped.

    The other arguments are those of `Crawl`. `summary.refreshed` has the results of this run's polls.
    """
    words: dict[str, object] = {"time": time, "delay": delay, "concurrency": concurrency, "contact": contact}
    words |= {"allow_private": allow_private, "resolve": resolve}
    given = {"refresh.budget": budget, "refresh.policy": policy}
    changes = {name: value for name, value in given.items() if value is not None} | dict(settings or {})
    plan = plan_to_refresh(Path(directory).absolute(), words, changes, once=once, rest=rest)
    return BackgroundRun(plan).wait_for_summary()
