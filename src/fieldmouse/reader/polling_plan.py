"""Page tables of one or several crawls, opened together.

Plan of the polling policy for a budget, and the packing of sites onto nodes by their planned polls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.errors import CrawlDirError, FieldmouseError
from fieldmouse.policy import change
from fieldmouse.policy.packing.plan import HostWeight, PackingPlan, SiteWeight, plan_packing
from fieldmouse.policy.polling import registry
from fieldmouse.reader.snapshot import at_newest_checkpoint
from fieldmouse.refresh.apply_outcomes import PageFlag, is_unplanned
from fieldmouse.refresh.columns import Column
from fieldmouse.refresh.page_table import PAGE_TABLE, PageTable, read_page_table, sealed_policy
from fieldmouse.refresh.scheduler import RETRY_INTERVAL
from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import host_of, hostname_of, site_of


class OpenPageTable(NamedTuple):
    """A crawl, its newest checkpoint and its page table as of then."""

    home: CrawlDir
    last: Checkpoint
    ledger: PageTable


@contextmanager
def open_page_tables(homes: Sequence[CrawlDir]) -> Iterator[list[OpenPageTable]]:
    """Open the page table of each crawl that has a checkpoint."""
    opened: list[OpenPageTable] = []
    try:
        for home in homes:
            shelf = at_newest_checkpoint(home, partial(_shelf, home), before=None)
            if shelf is not None:
                opened.append(shelf)
        yield opened
    finally:
        for shelf in opened:
            shelf.ledger.close()


def _shelf(home: CrawlDir, last: Checkpoint) -> OpenPageTable | None:
    return OpenPageTable(home, last, read_page_table(home, last))


Reals = NDArray[np.float64]
Rows = NDArray[np.intp]

_NEVER = 1e15  # seconds


class PollingPlan:
    """Plan for all pages of one or several page tables, concatenated in the order of the tables.

    `rows` are the page numbers within each table, and `host` numbers the hosts across all of them.
    Settings are those of the first crawl.
    """

    def __init__(self, shelves: Sequence[OpenPageTable]):
        first, ledgers = shelves[0], [shelf.ledger for shelf in shelves]
        self.rows = [_standing(ledger) for ledger in ledgers]
        self._policy = registry.create_policy(sealed_policy(first.last))
        pairs = list(zip(ledgers, self.rows, strict=True))
        self.belief = np.concatenate([ledger.beliefs(rows) for ledger, rows in pairs])
        self._state = np.concatenate(
            [
                shelf.ledger.take("state", rows)
                if sealed_policy(shelf.last) == sealed_policy(first.last)
                else self._policy.begin(len(rows))
                for shelf, rows in zip(shelves, self.rows, strict=True)
            ]
        )
        every = np.concatenate([ledger.hosts.column("key") for ledger in ledgers])
        keys, first_at, numbers = np.unique(every, return_index=True, return_inverse=True)
        numbers = np.argsort(np.argsort(first_at))[numbers]  # keeps the numbers of a single table
        ends = np.cumsum([len(ledger.hosts) for ledger in ledgers])
        parts = zip(ledgers, self.rows, np.split(numbers, ends[:-1]), strict=True)
        self.host = np.concatenate([hosts[ledger.take("host", rows)] for ledger, rows, hosts in parts])
        self.hosts = len(keys)
        config = settings_file.load(first.home / "fieldmouse.toml")
        delay = config.politeness.delay
        self._host_limit = 1 / delay if delay else None
        self.retry = RETRY_INTERVAL
        self.budget = _budget(shelves, config)  # polls a second; None: only politeness bounds them

    def column(self, name: str, ledgers: Sequence[PageTable]) -> Column:
        """A column of all these pages."""
        parts = zip(ledgers, self.rows, strict=True)
        return np.concatenate([ledger.take(name, rows) for ledger, rows in parts])

    def present_rates(self) -> Reals:
        """Polls a second of each page in the present plan."""
        limit = self._host_limit * self.hosts if self._host_limit else float(len(self.belief))
        return self.rates(self.budget or limit)

    def rates(self, budget: float) -> Reals:
        """Polls a second of each page, for a total of `budget`."""
        return self._policy.plan(self._state, self.belief, budget, host=self.host, host_limit=self._host_limit)

    def freshness_at(self, budget: float, law: change.RateDistribution) -> float:
        """The long-run share of time in which a copy is current, mean over pages."""
        rates = self.rates(budget)
        interval = np.where(rates > 0, 1 / np.maximum(rates, 1 / _NEVER), _NEVER)
        return float(change.freshness(self.belief, interval, law).mean())


def _standing(ledger: PageTable) -> Rows:
    """Numbers of the pages that the plan covers."""
    flags = ledger.column("flags")
    absent = flags & (PageFlag.SIGNAL | PageFlag.ABSENT) != 0
    return np.flatnonzero(~is_unplanned(flags) & ~absent & (ledger.column("looked") > 0))


def _budget(shelves: Sequence[OpenPageTable], config: Settings) -> float | None:
    """Total budget of all crawls: agents of one crawl share the budget of its settings."""
    seeds = {shelf.home.identity.key_seed for shelf in shelves}
    if len(shelves) > 1 and len(seeds) == 1 and config.refresh.on:
        return 1 / config.refresh.budget if config.refresh.budget else None
    budgets = [shelf.ledger.budget for shelf in shelves if shelf.ledger.budget is not None]
    return sum(budgets) if len(budgets) == len(shelves) else None


PLAN_FILE = "pack.json"


class NoPolls(FieldmouseError):
    """No page was ever polled, so no site has a weight."""

    def __init__(self, home: CrawlDir):
        super().__init__(
            f"no page of `{home.path}` was ever polled, so no site has polls to be packed",
            f"ask for its pages again with `{home.poll_command('500/h')}`, then pack",
        )


def pack(
    home: CrawlDir, capacity: float, now: float, *, others: Sequence[CrawlDir] = (), anew: bool = False
) -> PackingPlan:
    """Packing plan for the present sites, starting from the last plan unless `anew`. Nothing is written.

    With `others`, the sites of all these crawls are packed; the last plan is that of `home`.
    """
    return plan_packing(site_weights([home, *others]), capacity, now, None if anew else last_plan(home))


def site_weights(homes: Sequence[CrawlDir]) -> list[SiteWeight]:
    """Polls an hour of each registered domain in the present plan, heaviest first."""
    with open_page_tables(homes) as opened:
        opened = [shelf for shelf in opened if PAGE_TABLE in shelf.last.parts]
        planner = PollingPlan(opened) if opened else None
        if planner is None or not len(planner.belief):
            raise NoPolls(homes[0])
        hosts, rows = planner.host, planner.rows
        polls, pages = np.bincount(hosts, 3600 * planner.present_rates()), np.bincount(hosts)
        sites: dict[str, list[HostWeight]] = {}
        seen: set[int] = set()
        ends = np.cumsum([len(some) for some in rows])
        for shelf, its, some in zip(opened, np.split(hosts, ends[:-1]), rows, strict=True):
            numbers, first = np.unique(its, return_index=True)
            for number, (_, row) in zip(numbers.tolist(), shelf.ledger.standing_rows(some[first]), strict=True):
                if number not in seen:
                    seen.add(number)
                    host = host_of(row.url)
                    weight = HostWeight(host, float(polls[number]), int(pages[number]))
                    sites.setdefault(site_of(hostname_of(host)), []).append(weight)
    weights = [
        SiteWeight(site, sum(w.polls for w in hosts), sum(w.pages for w in hosts), tuple(hosts))
        for site, hosts in sites.items()
    ]
    return sorted(weights, key=lambda weight: (-weight.polls, weight.site))


def last_plan(home: CrawlDir) -> PackingPlan | None:
    """The plan stored in the crawl directory; None if there is none."""
    path = home / PLAN_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=PackingPlan)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as trouble:
        raise CrawlDirError(
            f"`{path}` is no plan: {trouble}", "with `--anew` all sites are packed from scratch"
        ) from None
