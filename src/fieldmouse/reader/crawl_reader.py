"""Readers of crawl directories: `fieldmouse.open` returns `CrawlReader` for one, `MultiCrawlReader` for a list.

Readers take no lock and write nothing. Each call reads the newest checkpoint, because a kill may undo
anything written after it.

Each agent of a cluster has a directory, and sometimes two agents have stored the same page. The reader shows
it once: the copy fetched last, or none if the page was gone at the last fetch. Most URLs occur in one crawl
only and need no entry: the choice keeps the keys of outdated URLs, eight bytes each, and is built from the
latest outcomes, sixteen bytes a URL of every crawl.
"""

from __future__ import annotations

import os
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.reader.page import StoredPage
from fieldmouse.reader.snapshot import CrawlRow, CrawlSnapshot, rows_by_time
from fieldmouse.reader.user_input import host_filter, parse_url, possible_urls
from fieldmouse.storage import outcome_log_reader
from fieldmouse.storage.checkpoint import Checkpoint, read_checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.outcome_log_reader import NO_OUTCOMES, LatestOutcomeTimes, read_latest_outcomes, url_hash
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.stats import LiveStats

if TYPE_CHECKING:
    from fieldmouse.config.settings_file import Settings
    from fieldmouse.control.buffer_trace import Rows
    from fieldmouse.control.concurrency_decision_log import ControlPeriod
    from fieldmouse.doctor.check.check_result import CheckResult
    from fieldmouse.policy.noise_rules import NoiseRules
    from fieldmouse.policy.site_packing.plan import PackingPlan
    from fieldmouse.reader.explain import CombinedExplanation, Explanation
    from fieldmouse.reader.freshness import FreshnessReport
    from fieldmouse.reader.noise_rule_proposals import RuleProposal
    from fieldmouse.reader.status import CrawlStatus
    from fieldmouse.reader.versions import VersionDifference, VersionSearchHit
    from fieldmouse.search.search import Hit
    from fieldmouse.storage.changes_from_outcomes import Change


class BaseCrawlReader:
    """Everything that can be read from one crawl and from several as one.

    For a URL in several crawls, the newest outcome counts. A reader may stay open and be used from several
    threads. Iterating pages and searching several crawls take sixteen bytes of memory a URL of every crawl.
    """

    def __init__(self, rooms: tuple[CrawlReader, ...]):
        self.rooms = rooms  # one for each crawl, in the order given
        self._reading = Lock()
        self._latest: tuple[LatestOutcomeTimes, ...] = ()  # as of the last read; logs only grow

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(room.path for room in self.rooms)

    def _snapshots(self) -> list[CrawlSnapshot]:
        return [room.snapshot() for room in self.rooms]

    def _crawl_precedence(self, snapshots: list[CrawlSnapshot]) -> CrawlPrecedence:
        with self._reading:
            latest = self._latest or (NO_OUTCOMES,) * len(snapshots)
            self._latest = tuple(
                read_latest_outcomes(snapshot.home, snapshot.length, before)
                for snapshot, before in zip(snapshots, latest, strict=True)
            )
            return CrawlPrecedence(self._latest)

    # -- pages

    def pages(self, host: str | None = None) -> Iterator[StoredPage]:
        """Every stored page in its newest version, in the order of storing; roughly, if there are several crawls.

        `host` selects pages of that host and its subdomains, like `host:` in a search: "example.org"
        includes docs.example.org. Reads the log twice, with eight bytes of memory a page; the logs of several
        crawls three times.
        """
        is_wanted = host_filter(host)
        for snapshot, row in self._newest_page_rows():
            if is_wanted(row.url):
                yield snapshot.page_of_row(row)

    def _newest_page_rows(self) -> Iterator[CrawlRow]:
        snapshots = self._snapshots()
        if len(snapshots) == 1:
            return ((snapshots[0], row) for row in snapshots[0].newest_page_rows())
        newest_crawl = self._crawl_precedence(snapshots)

        def newest(crawl: int, rows: Iterator[OutcomeRow]) -> Iterator[OutcomeRow]:
            for row in rows:
                if not newest_crawl.is_outdated(crawl, row.url):
                    yield (outcome_log_reader.as_not_indexed(row) if newest_crawl.has_later_noindex(row.url) else row)

        return rows_by_time(
            (snapshot, newest(crawl, snapshot.newest_page_rows())) for crawl, snapshot in enumerate(snapshots)
        )

    def page(self, url: str) -> StoredPage | None:
        """The newest version of one page; None if it is not stored.

        `url` is normalised as in the crawler. Reads the whole log: for many pages use `pages`.
        """
        snapshots = self._snapshots()
        pages = (
            _newest_page_of_crawls([(snapshot, snapshot.rows_of(name)) for snapshot in snapshots])
            for name in possible_urls(url)
        )
        return next(filter(None, pages), None)

    def rows(self) -> Iterator[OutcomeRow]:
        """Every outcome, oldest first (of several crawls roughly), including redirects, failures and refusals."""
        return (row for _, row in self._outcome_rows())

    def rows_with_directory(self) -> Iterator[tuple[Path, OutcomeRow]]:
        """The same, each with the directory of its crawl."""
        return ((snapshot.home.path, row) for snapshot, row in self._outcome_rows())

    def _outcome_rows(self) -> Iterator[CrawlRow]:
        yield from rows_by_time((snapshot, snapshot.rows()) for snapshot in self._snapshots())

    def items(self, *, all: bool = False) -> Iterator[dict[str, Any]]:
        """The rows that `plugins.extract` made from the pages, as `export --items` writes them.

        From the newest version of each page, or with `all` from every version. `url` and `fetched_at` of
        the page are added unless the row has them, and `directory` if several crawls are read.
        """
        for snapshot, row in self._outcome_rows() if all else self._newest_page_rows():
            origin = {"directory": str(snapshot.home.path)} if isinstance(self, MultiCrawlReader) else {}
            for item in snapshot.extracted_items(row):
                yield origin | item

    # -- changes

    def changes(self, since: float | datetime | timedelta | None = None, host: str | None = None) -> Iterator[Change]:
        """New, changed, gone and moved pages, one entry for each time it happened.

        `since` is a point in time (epoch seconds or a datetime) or a timedelta before now; `host` as in
        `pages`. Changes that proved to be noise and changes that the rules in `[noise]` of the first crawl now
        ignore are left out. A change seen by two crawls is listed once.
        """
        return (change for _, change in self.changes_with_directory(since, host))

    def changes_with_directory(
        self, since: float | datetime | timedelta | None = None, host: str | None = None
    ) -> Iterator[tuple[Path, Change]]:
        """The same, each with the directory of the crawl that saw it first."""
        from fieldmouse.reader.changes import list_changes
        from fieldmouse.reader.user_input import to_epoch

        snapshots = [snapshot for snapshot in self._snapshots() if snapshot.last is not None]
        if snapshots:
            changes = list_changes(snapshots, self._noise_rules_of_first(), to_epoch(since), host_filter(host))
            yield from ((snapshot.home.path, change) for change, snapshot in changes)

    def _noise_rules_of_first(self) -> NoiseRules:
        from fieldmouse.config.rules_from_settings import noise_of

        return noise_of(self.rooms[0].settings())

    def versions(self, url: str) -> list[StoredPage]:
        """Every stored version of one page, oldest first, each with other bytes than the one before.

        A version may differ from the one before only in noise; `version.row.news` says so.
        """
        from fieldmouse.reader.versions import stored_versions

        snapshots = self._snapshots()
        for name in possible_urls(url):
            history = list(rows_by_time((snapshot, snapshot.rows_of(name)) for snapshot in snapshots))
            if versions := stored_versions(history):
                return [snapshot.page_of_row(row) for snapshot, row in versions]
        return []

    def difference(self, url: str, old: str | int | None = None, new: str | int | None = None) -> VersionDifference:
        """The visible difference between two versions of a page.

        A version is given as a number (1 is the oldest, -1 the newest) or as a time at which it was
        current, such as "2026-11-16". By default, the newest change and the version before it.
        """
        from fieldmouse.reader.versions import difference_between, too_few_versions_error

        versions = self.versions(url)
        if len(versions) < 2:
            changes = [change for page in versions for change in self.changes() if change.url == page.url]
            raise too_few_versions_error(parse_url(url), versions, changes[-1] if changes else None, self.paths)
        return difference_between(parse_url(url), versions, self._noise_rules_of_first(), old, new)

    # -- state and history

    def freshness(
        self, budgets: Sequence[float] = (), window: float | None = None, policy: str | None = None
    ) -> FreshnessReport:
        """How fresh the copies are, what their polls found, and what other budgets would achieve.

        `budgets` in polls an hour, of all crawls together; by default from a quarter to four times the present
        one. `window`: seconds to look back, at most; by default a week. `policy` is the polling policy whose plan is
        shown, by default that of the last refresh; your own is loaded only if you name it here.
        """
        from fieldmouse.reader.freshness import WINDOW, read_freshness

        homes, now = self._open_directories(), time.time()
        return read_freshness(homes, now, budgets=budgets, window=window or WINDOW, policy=policy)

    def packing_plan(self, capacity: float, *, anew: bool = False) -> PackingPlan:
        """The number of nodes with `capacity` polls an hour that the sites need, and the node of each site.

        Starts from the plan that `fieldmouse pack` stored last (in the first crawl), with few sites moved, unless
        `anew`. Stores nothing.
        """
        from fieldmouse.reader.polling_and_packing_plans import make_packing_plan

        return make_packing_plan(self._open_directories(), capacity, time.time(), anew=anew)

    def _open_directories(self) -> list[CrawlDir]:
        """Opened anew for each call: a crawl may have been deleted or replaced."""
        return [CrawlDir.open(path) for path in self.paths]

    # -- full-text search

    def search(self, words: str, limit: int = 10) -> list[Hit]:
        """The best pages for `words`, best first, each with `url`, `title`, `snippet`, `score` and `directory`.

        The syntax is that of `fieldmouse search`; the snippet has matches between `**`.
        """
        from fieldmouse.search.search import search_crawls

        snapshots, is_visible = self._searchable_snapshots()
        return search_crawls([snapshot.home.path for snapshot in snapshots], words, limit, is_visible)

    def search_versions(self, words: str, limit: int = 10) -> list[VersionSearchHit]:
        """The same in all versions of all pages, including pages that are gone.

        Versions not in the index are read from the archive, about 2 ms each.
        """
        from fieldmouse.reader.versions import search_versions

        return search_versions(*self._searchable_snapshots(), words, limit)

    def _searchable_snapshots(self) -> tuple[list[CrawlSnapshot], Callable[[int, str], bool]]:
        # At the newest checkpoint, also after `pinned`: an index has only its present state.
        snapshots = [CrawlSnapshot(home, read_checkpoint(home)) for home in self._open_directories()]
        for snapshot in snapshots:
            snapshot.check_index_exists()
        if len(snapshots) == 1:
            return snapshots, lambda crawl, url: True
        # Read the logs before opening the indexes: the newest page of a log must be in its index.
        return snapshots, self._crawl_precedence(snapshots).is_searchable

    # former names
    placed_rows = rows_with_directory
    placed_changes = changes_with_directory


class CrawlReader(BaseCrawlReader):
    """Read access to the crawl in a directory, while it runs and after. Takes no lock, writes nothing.

    Each method reads the newest checkpoint at the time of the call. A reader may stay open and be used
    from several threads.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        """Raise `NotACrawl` if there is no crawl in `directory`."""
        super().__init__((self,))
        self.path = CrawlDir.open(Path(directory)).path
        self._fixed: tuple[Checkpoint | None] | None = None  # None: the newest at each call

    @property
    def poll_command(self) -> str:
        """The command that polls the crawl's pages."""
        return self._open_directory.poll_command_line()

    @property
    def _open_directory(self) -> CrawlDir:
        return self._open_directories()[0]

    def pinned(self) -> CrawlReader:
        """A reader fixed at the present checkpoint: pages and rows do not change while the crawl runs."""
        fixed = CrawlReader(self.path)
        fixed._fixed = (self.snapshot().last,)
        return fixed

    def snapshot(self) -> CrawlSnapshot:
        """The crawl at its newest checkpoint, or at the one fixed by `pinned`."""
        home = self._open_directory
        return CrawlSnapshot(home, self._fixed[0] if self._fixed else read_checkpoint(home))

    def pages_from_offset(self, start: int) -> Iterator[tuple[StoredPage, int]]:
        """Every stored page from byte `start` of the outcome log, each with the offset after it.

        Ends at the newest checkpoint. A caller that stores the offset can continue from it later, also
        after a kill, because a checkpoint is never undone. A page that was fetched again is returned
        again.
        """
        if start < 0:
            raise UsageError(f"`start` is {start}, and offsets begin at 0", "pass 0 or an offset from an earlier call")
        snapshot = self.snapshot()
        for row, end in outcome_log_reader.page_rows_from(snapshot.home, start, length=snapshot.length):
            yield snapshot.page_of_row(row), end

    def propose_noise_rules(self, host: str | None = None) -> list[RuleProposal]:
        """Rules for `[noise]` that would ignore page parts that differ at every look."""
        from fieldmouse.reader.noise_rule_proposals import propose_noise_rules

        return propose_noise_rules(self.snapshot(), self._noise_rules_of_first(), host_filter(host))

    def explain(self, url: str) -> Explanation:
        """When and where `url` was found, its outcomes, and the state of its host."""
        from fieldmouse.reader.explain import explain

        return explain(self._open_directory, parse_url(url))

    def status(self) -> CrawlStatus:
        """Process, pages and waiting URLs of the crawl. `print` it for a sentence."""
        from fieldmouse.reader.status import read_status

        return read_status(self._open_directory)

    def doctor(self, *, deep: bool = False) -> list[CheckResult]:
        """Check the crawl directory and its accounts; one finding per check.

        Each finding has `healthy` and, if needed, `advice`. All files are read except the contents of WARC
        files, which `deep` reads too. Nothing is repaired: `fieldmouse doctor --repair` does that.
        """
        from fieldmouse.doctor.check.examine import check_crawl

        return list(check_crawl(self._open_directory, deep=deep))

    def live_stats(self) -> Iterator[LiveStats]:
        """Statistics of the crawl, about one for each second of running, oldest first."""
        from fieldmouse.reader.status import read_live_stats

        return read_live_stats(self._open_directory)

    def explain_no_pages(self, reason: str = "") -> tuple[str, str]:
        """Why no page was stored (the most common reason by default): a sentence about one URL, and a hint."""
        from fieldmouse.reader.explain_missing import explain_no_pages

        return explain_no_pages(self._open_directory, reason)

    def settings(self) -> Settings:
        """The present settings in `fieldmouse.toml`."""
        from fieldmouse.config import settings_file

        return settings_file.load(self._open_directory / "fieldmouse.toml")

    def control_periods(self) -> list[ControlPeriod]:
        """The rules that set the number of fetch workers, oldest first, each with its forecast and result."""
        from fieldmouse.control.concurrency_decision_log import control_periods

        return control_periods(self._open_directory / "control.log")

    def buffer_trace_rows(self) -> Rows:
        """The traced pages that reached the buffer, to fit a model to."""
        from fieldmouse.control.buffer_trace import read_trace_rows

        return read_trace_rows(self._open_directory / "pages.trace")

    def __repr__(self) -> str:
        try:
            return f"<CrawlReader {self.status()}>"
        except (FieldmouseError, OSError) as trouble:
            return f"<CrawlReader `{self.path}`: {trouble}>"

    # former names
    still = pinned
    proposed_rules = propose_noise_rules


class MultiCrawlReader(BaseCrawlReader):
    """Read access to crawls in several directories, as one. Takes no lock, writes nothing.

    Each method reads the newest checkpoint of each crawl. Facts of a single crawl, such as its status, come
    from its own reader:

        for room in fieldmouse.open(["agent-1", "agent-2"]).rooms:
            print(room.status())
    """

    def __init__(self, directories: Iterable[str | os.PathLike[str]]):
        """Raise `NotACrawl` if a directory holds no crawl, `UsageError` if one is named twice."""
        super().__init__(tuple(CrawlReader(directory) for directory in directories))
        if not self.rooms:
            raise UsageError("there is no crawl to read", "name at least one directory")
        seen: dict[Path, Path] = {}
        for path in self.paths:
            first = seen.setdefault(path.resolve(), path)
            if first is not path:
                same = f"`{path}` is named twice" if first == path else f"`{first}` and `{path}` are the same"
                raise UsageError(same, "name each crawl once")

    def pinned(self) -> MultiCrawlReader:
        """A reader fixed at the present checkpoints: pages and rows do not change while the crawls run."""
        fixed = MultiCrawlReader(self.paths)
        fixed.rooms = tuple(room.pinned() for room in self.rooms)
        fixed._latest = self._latest
        return fixed

    def explain(self, url: str) -> CombinedExplanation:
        """The explanation of `url` by each crawl, and the crawl with the newest outcome."""
        from fieldmouse.reader.explain import explain_in_crawls

        return explain_in_crawls(self._open_directories(), parse_url(url))

    def __repr__(self) -> str:
        return f"<MultiCrawlReader {', '.join(f'`{path}`' for path in self.paths)}>"

    # former names
    still = pinned


def _newest_page_of_crawls(crawls: list[tuple[CrawlSnapshot, list[OutcomeRow]]]) -> StoredPage | None:
    """The stored page of a URL, given its rows in each crawl."""
    last: tuple[float, CrawlSnapshot, list[OutcomeRow]] | None = None
    for snapshot, rows in crawls:
        at = max((place for place, row in enumerate(rows) if outcome_log_reader.decides_page(row)), default=None)
        if at is not None and (last is None or rows[at].at > last[0]):
            last = rows[at].at, snapshot, rows
    row = outcome_log_reader.newest_page_row(last[2]) if last is not None else None
    if last is None or row is None:
        return None
    others = (rows for snapshot, rows in crawls if snapshot is not last[1])  # `newest_page_row` knows its own rows
    has_later_noindex = any(seen.unlisted and seen.at > last[0] for rows in others for seen in rows)
    return last[1].page_of_row(outcome_log_reader.as_not_indexed(row) if has_later_noindex else row)


class CrawlPrecedence:
    """Outdated and unlisted URLs of several crawls, which are identified by their index."""

    def __init__(self, crawls: Sequence[LatestOutcomeTimes]):
        keys = np.sort(np.concatenate([latest.keys for latest in crawls]))
        shared = np.unique(keys[1:][keys[1:] == keys[:-1]])
        del keys
        last, at = np.zeros(len(shared), np.int32), np.full(len(shared), -np.inf)
        for crawl, latest in enumerate(crawls):
            there, when = _latest_times(latest, shared)
            newer = there & (when > at)
            last[newer], at[newer] = crawl, when[newer]
        self._outdated = [
            array("Q", shared[_latest_times(latest, shared)[0] & (last != n)].tobytes())
            for n, latest in enumerate(crawls)
        ]
        self._unlisted = frozenset(
            key for latest in crawls for key, when in latest.unlisted.items() if when > _latest_time(crawls, key)
        )

    def is_outdated(self, crawl: int, url: str) -> bool:
        """Whether another crawl has a newer outcome of a URL that this crawl has stored."""
        outdated = self._outdated[crawl]
        key = url_hash(url) if outdated else 0
        place = bisect_left(outdated, key)
        return place < len(outdated) and outdated[place] == key

    def has_later_noindex(self, url: str) -> bool:
        """Whether a crawl found the page unchanged but not to be listed, after every latest outcome of it."""
        return bool(self._unlisted) and url_hash(url) in self._unlisted

    def is_searchable(self, crawl: int, url: str) -> bool:
        """Whether a search may show this crawl's copy."""
        return not self.is_outdated(crawl, url) and not self.has_later_noindex(url)


def _latest_times(
    latest: LatestOutcomeTimes, keys: NDArray[np.uint64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which of these keys a crawl has, and the times of their latest outcomes."""
    if not len(latest.keys):
        return np.zeros(len(keys), np.bool_), np.zeros(len(keys))
    places = np.minimum(np.searchsorted(latest.keys, keys), len(latest.keys) - 1)
    return latest.keys[places] == keys, latest.at[places]


def _latest_time(crawls: Sequence[LatestOutcomeTimes], key: int) -> float:
    return max((at for latest in crawls if (at := latest.latest_time_of(key)) is not None), default=-np.inf)
