"""Sites of a crawl with the polls that are planned for them, and the plan that packed them last."""

from __future__ import annotations

import msgspec
import numpy as np

from fieldmouse.crawldir import Checkpoint, CrawlDir
from fieldmouse.errors import CrawlDirError, FieldmouseError
from fieldmouse.policy.packing.plan import PackingPlan, SiteWeight, planned
from fieldmouse.reading.moment import look
from fieldmouse.reading.planning import Planner
from fieldmouse.refresh.reading import LEDGER, read_ledger
from fieldmouse.url import host_of, name_of, site_of

PLAN = "pack.json"


class NothingPolled(FieldmouseError):
    """Sites have a weight once their pages are polled."""

    def __init__(self, home: CrawlDir):
        super().__init__(
            f"no page of `{home.path}` was ever polled, so no site has polls to be packed",
            "polls are planned once the crawl is kept fresh (fieldmouse refresh): pack after that",
        )


def pack(home: CrawlDir, capacity: float, now: float, *, anew: bool = False) -> PackingPlan:
    """The plan for the sites as they stand, from the last one unless `anew`. Nothing is written."""
    return planned(site_weights(home), capacity, now, None if anew else last_plan(home))


def site_weights(home: CrawlDir) -> list[SiteWeight]:
    """Polls an hour of each registered domain by the present plan, heaviest first."""

    def at(last: Checkpoint) -> list[SiteWeight]:
        if LEDGER not in last.parts:
            raise NothingPolled(home)
        ledger = read_ledger(home, last)
        try:
            planner = Planner(home, last, ledger)
            if not len(planner.rows):
                raise NothingPolled(home)
            hosts = ledger.take("host", planner.rows).astype(np.int64)
            polls, pages = np.bincount(hosts, 3600 * planner.present()), np.bincount(hosts)
            numbers, some = np.unique(hosts, return_index=True)
            found: dict[str, tuple[float, int]] = {}
            for number, (_, row) in zip(numbers, ledger.urls(planner.rows[some]), strict=True):
                site = site_of(name_of(host_of(row.url)))
                before = found.get(site, (0.0, 0))
                found[site] = before[0] + float(polls[number]), before[1] + int(pages[number])
        finally:
            ledger.close()
        weights = [SiteWeight(site, polls, pages) for site, (polls, pages) in found.items()]
        return sorted(weights, key=lambda weight: (-weight.polls, weight.site))

    found = look(home, at, before=None)
    if found is None:
        raise NothingPolled(home)
    return found


def last_plan(home: CrawlDir) -> PackingPlan | None:
    """The plan that was kept in the crawl's directory; None if there is none."""
    path = home / PLAN
    try:
        return msgspec.json.decode(path.read_bytes(), type=PackingPlan)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as trouble:
        raise CrawlDirError(
            f"`{path}` is no plan: {trouble}", "with `--anew` all sites are packed from scratch"
        ) from None
