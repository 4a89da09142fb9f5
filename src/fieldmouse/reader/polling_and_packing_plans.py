"""Page tables of one or several crawls, opened together.

Plan of the polling policy for a budget, and the packing of sites onto nodes by their planned polls.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.errors import CrawlDirError, FieldmouseError
from fieldmouse.frontier.durable_parts import frontier_state_of
from fieldmouse.frontier.hosts.host_table import read_hosts
from fieldmouse.policy import change_rate
from fieldmouse.policy.polling import registry
from fieldmouse.policy.site_packing.plan import HostWeight, PackingPlan, SiteWeight, plan_packing
from fieldmouse.reader.snapshot import read_at_newest_checkpoint
from fieldmouse.refresh.apply_outcomes import PageFlag, is_unplanned
from fieldmouse.refresh.column_table import Column
from fieldmouse.refresh.page_table import PAGE_TABLE, PageTable, checkpointed_policy, read_page_table, reader_policy
from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import Url, host_of, hostname_of, site_of

log = logging.getLogger(__name__)


class OpenPageTable(NamedTuple):
    """A crawl, its newest checkpoint and its page table as of then."""

    home: CrawlDir
    last: Checkpoint
    table: PageTable
    host_groups: NDArray[np.int64]  # a number for each host; hosts at one address share theirs

    @classmethod
    def with_host_groups(cls, home: CrawlDir, last: Checkpoint, table: PageTable) -> Self:
        hosts = read_hosts(home / "frontier", frontier_state_of(last).hosts) if "frontier" in last.parts else {}
        return cls(home, last, table, table.group_hosts((host, state.address) for host, state in hosts.items()))


@contextmanager
def open_page_tables(homes: Sequence[CrawlDir]) -> Iterator[list[OpenPageTable]]:
    """Open the page table of each crawl that has a checkpoint."""
    opened: list[OpenPageTable] = []
    try:
        for home in homes:
            crawl = read_at_newest_checkpoint(home, partial(_open_page_table, home), before=None)
            if crawl is not None:
                opened.append(crawl)
        yield opened
    finally:
        for crawl in opened:
            crawl.table.close()


def _open_page_table(home: CrawlDir, last: Checkpoint) -> OpenPageTable | None:
    return OpenPageTable.with_host_groups(home, last, read_page_table(home, last))


Reals = NDArray[np.float64]
Rows = NDArray[np.intp]

_NEVER = 1e15  # seconds


class PollingPlan:
    """Plan for all pages of one or several page tables, concatenated in the order of the tables.

    `rows` are the page numbers within each table, and `host` numbers the hosts across all of them.
    Settings are those of the first crawl.
    """

    def __init__(self, crawls: Sequence[OpenPageTable], policy: str | None = None):
        """`policy` plans instead of that of the last refresh."""
        first, tables = crawls[0], [crawl.table for crawl in crawls]
        self.tables, self.rows = tables, [_planned_pages(table) for table in tables]
        self._starts = np.cumsum([0, *map(len, self.rows)])
        name = self.policy_name = policy or checkpointed_policy(first.last)
        self._policy = registry.create_policy(policy) if policy else reader_policy(first.last)
        if not policy and not registry.is_builtin(name):
            log.warning(
                "the polling policy `%s` is not loaded here: poll rates are those of `learned`;"
                " `fieldmouse freshness --policy %s` shows its own",
                name,
                name,
            )
        self.belief = np.concatenate(
            [table.change_rate_beliefs(rows) for table, rows in zip(tables, self.rows, strict=True)]
        )
        states = [
            crawl.table.read_cells("state", rows)
            if checkpointed_policy(crawl.last) == name
            else self._policy.initial_state(len(rows))
            for crawl, rows in zip(crawls, self.rows, strict=True)
        ]
        self._state = np.concatenate(states)
        every = np.concatenate([table.hosts.column("key") for table in tables])
        keys, first_at, numbers = np.unique(every, return_index=True, return_inverse=True)
        numbers = np.argsort(np.argsort(first_at))[numbers]  # keeps the numbers of a single table
        ends = np.cumsum([len(table.hosts) for table in tables])
        parts = zip(tables, self.rows, np.split(numbers, ends[:-1]), strict=True)
        self.host_of_page = np.concatenate([hosts[table.read_cells("host", rows)] for table, rows, hosts in parts])
        self.host_count = len(keys)
        # An agent of a cluster does not know all addresses: a host belongs to the first group that has it.
        groups = np.concatenate(
            [crawl.host_groups + start for crawl, start in zip(crawls, [0, *ends[:-1]], strict=True)]
        )
        self._group_of_host = groups[np.sort(first_at)]
        config = settings_file.load(first.home / "fieldmouse.toml")
        delay = config.politeness.delay
        self._host_limit = 1 / delay if delay else None
        self.budget = _total_budget(crawls, config)  # polls a second; None: only politeness bounds them

    def table_column(self, name: str) -> Column:
        """A column of all these pages."""
        return np.concatenate(
            [table.read_cells(name, rows) for table, rows in zip(self.tables, self.rows, strict=True)]
        )

    def url_of(self, place: int) -> Url:
        """URL of a page, by its index among all these pages."""
        number = int(np.searchsorted(self._starts, place, side="right")) - 1
        at = place - self._starts[number]
        return next(row.url for _, row in self.tables[number].current_outcomes(self.rows[number][at : at + 1]))

    def present_poll_rates(self) -> Reals:
        """Polls a second of each page in the present plan."""
        groups = len(np.unique(self._group_of_host))
        limit = self._host_limit * groups if self._host_limit else float(len(self.belief))
        return self.planned_rates(self.budget or limit)

    def planned_rates(self, budget: float) -> Reals:
        """Polls a second of each page, for a total of `budget`."""
        groups = self._group_of_host[self.host_of_page]
        return self._policy.plan(self._state, self.belief, budget, host=groups, host_limit=self._host_limit)

    def freshness_at_budget(self, budget: float, law: change_rate.ChangeRatePrior) -> float:
        """The long-run share of time in which a copy is current, mean over pages."""
        rates = self.planned_rates(budget)
        interval = np.where(rates > 0, 1 / np.maximum(rates, 1 / _NEVER), _NEVER)
        return float(change_rate.expected_freshness(self.belief, interval, law).mean())


def _planned_pages(table: PageTable) -> Rows:
    """Numbers of the pages that the plan covers."""
    flags = table.column("flags")
    absent = flags & (PageFlag.SIGNAL | PageFlag.ABSENT) != 0
    return np.flatnonzero(~is_unplanned(flags) & ~absent & (table.column("looked") > 0))


def _total_budget(crawls: Sequence[OpenPageTable], config: Settings) -> float | None:
    """Total budget of all crawls: agents of one crawl share the budget of its settings."""
    seeds = {crawl.home.identity.key_seed for crawl in crawls}
    if len(crawls) > 1 and len(seeds) == 1 and config.refresh.on:
        return 1 / config.refresh.budget if config.refresh.budget else None
    budgets = [crawl.table.budget for crawl in crawls if crawl.table.budget is not None]
    return sum(budgets) if len(budgets) == len(crawls) else None


PLAN_FILE = "pack.json"


class NoPollsToPack(FieldmouseError):
    """No page was ever polled, so no site has a weight."""

    def __init__(self, home: CrawlDir):
        super().__init__(
            f"no page of `{home.path}` was ever polled, so no site has polls to be packed",
            f"ask for its pages again with `{home.poll_command_line('500/h')}`, then pack",
        )


def make_packing_plan(homes: Sequence[CrawlDir], capacity: float, now: float, *, anew: bool = False) -> PackingPlan:
    """Packing plan for the present sites of all these crawls. Nothing is written.

    Starts from the last plan in the first crawl, unless `anew`.
    """
    return plan_packing(site_weights(homes), capacity, now, None if anew else read_last_plan(homes[0]))


def site_weights(homes: Sequence[CrawlDir]) -> list[SiteWeight]:
    """Polls an hour of each registered domain in the present plan, heaviest first."""
    with open_page_tables(homes) as opened:
        opened = [crawl for crawl in opened if PAGE_TABLE in crawl.last.parts]
        planner = PollingPlan(opened) if opened else None
        if planner is None or not len(planner.belief):
            raise NoPollsToPack(homes[0])
        polls, pages = (
            np.bincount(planner.host_of_page, 3600 * planner.present_poll_rates()),
            np.bincount(planner.host_of_page),
        )
        sites: dict[str, list[HostWeight]] = {}
        numbers, first = np.unique(planner.host_of_page, return_index=True)
        for number, place in zip(numbers.tolist(), first.tolist(), strict=True):
            host = host_of(planner.url_of(place))
            weight = HostWeight(host, float(polls[number]), int(pages[number]))
            sites.setdefault(site_of(hostname_of(host)), []).append(weight)
    weights = [
        SiteWeight(site, sum(w.polls for w in hosts), sum(w.pages for w in hosts), tuple(hosts))
        for site, hosts in sites.items()
    ]
    return sorted(weights, key=lambda weight: (-weight.polls, weight.site))


def read_last_plan(home: CrawlDir) -> PackingPlan | None:
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
