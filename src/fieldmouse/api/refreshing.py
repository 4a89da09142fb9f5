"""`refresh`: known pages asked for again, planned and run like any crawl."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from fieldmouse.api.background import Background
from fieldmouse.api.hatch import Hatch
from fieldmouse.api.plan import Plan, plan_to_resume
from fieldmouse.crawldir import CrawlDir, read_checkpoint, sealed_tally
from fieldmouse.errors import UsageError, typed
from fieldmouse.records import Summary
from fieldmouse.settings.order import Order
from fieldmouse.settings.spellings import old_arguments


def plan_to_refresh(
    directory: Path, words: Mapping[str, object], changes: Mapping[str, object], *, once: bool, rest: bool
) -> Plan:
    """Polls of a crawl that has pages. Its own limits do not bind them; `time` among the words does.

    `rest` fetches what still waits, too.
    """
    timed = words.get("time") not in (None, 0, "0", "0s")
    if once and timed:
        raise UsageError(
            "a refresh ends after one round or after some time, not both",
            "say --once or --for, or neither to go on until it is stopped",
        )
    home = CrawlDir.open(directory)
    tally = sealed_tally(read_checkpoint(home))
    if not tally.pages and not tally.polled.polls:
        raise UsageError(
            f"the crawl in `{directory}` has no page yet, so there is nothing to refresh",
            f"`fieldmouse resume {typed(directory)}` goes on with it",
        )
    mine = {**words, "pages": 0, "time": words["time"] if timed else "0s"}
    plan = plan_to_resume(directory, mine, changes)
    return replace(plan, order=Order(once, hold=not rest, only=True))


@old_arguments
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
    """Poll the known pages of the crawl in `directory`, and say how it went.

    budget: polls, as a rate such as "500/h"; None is what `fieldmouse.toml` says, "none" for as many as
        politeness allows.
    policy: how the budget is spread: "learned", "uniform", ...; or "package.module:Class".
    once: end when every known page was polled once, and what that discovered is fetched.
    time: end after so many seconds, or text such as "1d". Without it and without `once` this
        goes on until Ctrl-C.
    rest: fetch the URLs, too, that were still waiting when the crawl was stopped.

    The others are those of `Crawl`. `summary.refreshed` has what the polls of this run showed.
    """
    words: dict[str, object] = {
        "time": time, "delay": delay, "concurrency": concurrency, "contact": contact,
        "allow_private": allow_private, "resolve": resolve,
    }  # fmt: skip
    asked = {"refresh.budget": budget, "refresh.policy": policy}
    changes = {name: value for name, value in asked.items() if value is not None} | dict(settings or {})
    hatch = Hatch()
    hatch.leave()
    plan = plan_to_refresh(Path(directory).absolute(), words, changes, once=once, rest=rest)
    run = Background(plan, hatch)
    try:
        run.wait()
    except BaseException:
        run.stop()
        run.wait()
        raise
    return run.summary
