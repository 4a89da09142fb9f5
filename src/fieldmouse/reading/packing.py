"""Packing of a crawl's sites onto nodes, by the polls planned for each site."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from fieldmouse.crawldir import CrawlDir
from fieldmouse.errors import CrawlDirError, FieldmouseError
from fieldmouse.policy.packing.plan import HostWeight, PackingPlan, SiteWeight, planned
from fieldmouse.reading.planning import Planner
from fieldmouse.reading.shelf import shelves
from fieldmouse.refresh.reading import LEDGER
from fieldmouse.url import host_of, name_of, site_of

PLAN = "pack.json"


class NothingPolled(FieldmouseError):
    """No page was ever polled, so no site has a weight."""

    def __init__(self, home: CrawlDir):
        super().__init__(
            f"no page of `{home.path}` was ever polled, so no site has polls to be packed",
            f"ask for its pages again with `{home.way_to_poll('500/h')}`, then pack",
        )


def pack(
    home: CrawlDir, capacity: float, now: float, *, others: Sequence[CrawlDir] = (), anew: bool = False
) -> PackingPlan:
    """Packing plan for the present sites, starting from the last plan unless `anew`. Nothing is written.

    With `others`, the sites of all these crawls are packed; the last plan is that of `home`.
    """
    return planned(site_weights([home, *others]), capacity, now, None if anew else last_plan(home))


def site_weights(homes: Sequence[CrawlDir]) -> list[SiteWeight]:
    """Polls an hour of each registered domain in the present plan, heaviest first."""
    with shelves(homes) as opened:
        opened = [shelf for shelf in opened if LEDGER in shelf.last.parts]
        planner = Planner(opened) if opened else None
        if planner is None or not len(planner.belief):
            raise NothingPolled(homes[0])
        hosts, rows = planner.host, planner.rows
        polls, pages = np.bincount(hosts, 3600 * planner.present()), np.bincount(hosts)
        sites: dict[str, list[HostWeight]] = {}
        seen: set[int] = set()
        ends = np.cumsum([len(some) for some in rows])
        for shelf, its, some in zip(opened, np.split(hosts, ends[:-1]), rows, strict=True):
            numbers, first = np.unique(its, return_index=True)
            for number, (_, row) in zip(numbers.tolist(), shelf.ledger.urls(some[first]), strict=True):
                if number not in seen:
                    seen.add(number)
                    host = host_of(row.url)
                    weight = HostWeight(host, float(polls[number]), int(pages[number]))
                    sites.setdefault(site_of(name_of(host)), []).append(weight)
    weights = [
        SiteWeight(site, sum(w.polls for w in hosts), sum(w.pages for w in hosts), tuple(hosts))
        for site, hosts in sites.items()
    ]
    return sorted(weights, key=lambda weight: (-weight.polls, weight.site))


def last_plan(home: CrawlDir) -> PackingPlan | None:
    """The plan stored in the crawl directory; None if there is none."""
    path = home / PLAN
    try:
        return msgspec.json.decode(path.read_bytes(), type=PackingPlan)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as trouble:
        raise CrawlDirError(
            f"`{path}` is no plan: {trouble}", "with `--anew` all sites are packed from scratch"
        ) from None
