"""Sites of a crawl with the polls that are planned for them, and the plan that packed them last."""

from __future__ import annotations

import msgspec
import numpy as np

from fieldmouse.crawldir import Checkpoint, CrawlDir
from fieldmouse.errors import CrawlDirError, FieldmouseError, typed
from fieldmouse.policy.packing.plan import HostWeight, PackingPlan, SiteWeight, planned
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
            f"ask for its pages again with `fieldmouse refresh {typed(home.path)} --budget 500/h`, then pack",
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
            found: dict[str, list[HostWeight]] = {}
            for number, (_, row) in zip(numbers, ledger.urls(planner.rows[some]), strict=True):
                host = host_of(row.url)
                weight = HostWeight(host, float(polls[number]), int(pages[number]))
                found.setdefault(site_of(name_of(host)), []).append(weight)
        finally:
            ledger.close()
        weights = [
            SiteWeight(site, sum(w.polls for w in hosts), sum(w.pages for w in hosts), tuple(hosts))
            for site, hosts in found.items()
        ]
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
