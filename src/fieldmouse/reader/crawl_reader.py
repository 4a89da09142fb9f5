"""Reader of one crawl directory, which `fieldmouse.open` returns.

Readers take no lock and write nothing. Each call reads the newest checkpoint, because a kill may undo
anything written after it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.reader.page import StoredPage
from fieldmouse.reader.snapshot import CrawlSnapshot
from fieldmouse.reader.user_input import is_on_host, parse_url, possible_urls
from fieldmouse.storage import outcome_log
from fieldmouse.storage.checkpoint import Checkpoint, read_checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.outcome import OutcomeRow
from fieldmouse.types.stats import LiveStats

if TYPE_CHECKING:
    from fieldmouse.config.settings_file import Settings
    from fieldmouse.control.control_log import ControlPeriod
    from fieldmouse.control.page_trace import Rows
    from fieldmouse.doctor.check.finding import Finding
    from fieldmouse.policy.packing.plan import PackingPlan
    from fieldmouse.reader.explain import Explanation
    from fieldmouse.reader.freshness import FreshnessReport
    from fieldmouse.reader.noise_rules import RuleProposal
    from fieldmouse.reader.status import CrawlStatus
    from fieldmouse.reader.versions import VersionDifference, VersionHit
    from fieldmouse.search.search import Hit
    from fieldmouse.storage.changes import Change


class CrawlReader:
    """Read access to the crawl in a directory, while it runs and after. Takes no lock, writes nothing.

    Each method reads the newest checkpoint at the time of the call. A reader may stay open and be used
    from several threads.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        """Raise `NotACrawl` if there is no crawl in `directory`."""
        self._path = CrawlDir.open(Path(directory)).path
        self._still: tuple[Checkpoint | None] | None = None  # None: the newest at each call

    @property
    def path(self) -> Path:
        return self._path

    @property
    def poll_command(self) -> str:
        """The command that polls the crawl's pages."""
        return self._home.poll_command()

    @property
    def _home(self) -> CrawlDir:
        """Opened anew for each call: the crawl may have been deleted or replaced."""
        return CrawlDir.open(self._path)

    def pinned(self) -> CrawlReader:
        """A reader fixed at the present checkpoint: pages and rows do not change while the crawl runs."""
        room = CrawlReader(self.path)
        room._still = (self._newest(),)
        return room

    def _newest(self) -> Checkpoint | None:
        return self._still[0] if self._still else read_checkpoint(self._home)

    def snapshot(self) -> CrawlSnapshot:
        """The crawl at its newest checkpoint, or at the one fixed by `pinned`."""
        return CrawlSnapshot(self._home, self._newest())

    def newest_snapshot(self) -> CrawlSnapshot:
        """The crawl at its newest checkpoint, also after `pinned`: an index has only its present state."""
        home = self._home
        return CrawlSnapshot(home, read_checkpoint(home))

    # -- pages

    def pages(self, host: str | None = None) -> Iterator[StoredPage]:
        """Every stored page in its newest version, in the order of storing.

        `host` selects pages of that host and its subdomains, like `host:` in a search: "example.org"
        includes docs.example.org. Reads the log twice, with eight bytes of memory a page.
        """
        is_wanted = None if host is None else is_on_host(host)
        volume = self.snapshot()
        for row in volume.pages():
            if is_wanted is None or is_wanted(row.url):
                yield volume.page(row)

    def page(self, url: str) -> StoredPage | None:
        """The newest version of one page; None if it is not stored.

        `url` is normalised as in the crawler. Reads the whole log: for many pages use `pages`.
        """
        volume = self.snapshot()
        for name in possible_urls(url):
            row = outcome_log.newest_page_row(volume.rows_of(name))
            if row is not None:
                return volume.page(row)
        return None

    def pages_from(self, start: int) -> Iterator[tuple[StoredPage, int]]:
        """Every stored page from byte `start` of the outcome log, each with the offset after it.

        Ends at the newest checkpoint. A caller that stores the offset can continue from it later, also
        after a kill, because a checkpoint is never undone. A page that was fetched again is returned
        again.
        """
        if start < 0:
            raise UsageError(f"`start` is {start}, and offsets begin at 0", "pass 0 or an offset from an earlier call")
        volume = self.snapshot()
        for row, end in outcome_log.pages_from(volume.home, start, length=volume.length):
            yield volume.page(row), end

    def rows(self) -> Iterator[OutcomeRow]:
        """Every outcome, oldest first, including redirects, failures and refusals."""
        yield from self.snapshot().rows()

    def items(self, *, all: bool = False) -> Iterator[dict[str, Any]]:
        """The rows that `plugins.extract` made from the pages, as `export --items` writes them.

        From the newest version of each page, or with `all` from every version. `url` and `fetched_at` of
        the page are added unless the row has them.
        """
        volume = self.snapshot()
        for row in volume.rows() if all else volume.pages():
            yield from volume.extracted_rows(row)

    # -- changes

    def changes(self, since: float | datetime | timedelta | None = None, host: str | None = None) -> Iterator[Change]:
        """New, changed, gone and moved pages, one entry for each time it happened.

        `since` is a point in time (epoch seconds or a datetime) or a timedelta before now; `host` as in
        `pages`. Changes that proved to be noise and changes that the rules in `[noise]` now ignore are
        left out.
        """
        from fieldmouse.config.factories import noise_of
        from fieldmouse.reader.changes import list_changes
        from fieldmouse.reader.user_input import to_epoch

        volume = self.snapshot()
        if volume.last is not None:
            is_wanted = None if host is None else is_on_host(host)
            rules = noise_of(self.settings())
            changes = list_changes([volume], rules, since=to_epoch(since), is_wanted=is_wanted)
            yield from (change for change, _ in changes)

    def versions(self, url: str) -> list[StoredPage]:
        """Every stored version of one page, oldest first, each with other bytes than the one before.

        A version may differ from the one before only in noise; `version.row.news` says so.
        """
        from fieldmouse.reader.versions import versions_of

        volume = self.snapshot()
        candidates = (versions_of(volume.rows_of(name)) for name in possible_urls(url))
        return [volume.page(row) for row in next(filter(None, candidates), [])]

    def difference(self, url: str, old: str | int | None = None, new: str | int | None = None) -> VersionDifference:
        """The visible difference between two versions of a page.

        A version is given as a number (1 is the oldest, -1 the newest) or as a time at which it was
        current, such as "2026-11-16". By default, the newest change and the version before it.
        """
        from fieldmouse.config.factories import noise_of
        from fieldmouse.reader.versions import difference_between

        return difference_between(parse_url(url), self.versions(url), noise_of(self.settings()), old, new)

    def propose_noise_rules(self, host: str | None = None) -> list[RuleProposal]:
        """Rules for `[noise]` that would ignore page parts that differ at every look."""
        from fieldmouse.reader.noise_rules import propose_noise_rules

        volume = self.snapshot()
        if volume.last is None:
            return []
        is_wanted = None if host is None else is_on_host(host)
        return propose_noise_rules(volume.home, volume.last, volume.record_reader, self.settings(), is_wanted)

    # -- state and history

    def explain(self, url: str) -> Explanation:
        """When and where `url` was found, its outcomes, and the state of its host."""
        from fieldmouse.reader.explain import explain

        return explain(self._home, parse_url(url))

    def freshness(self, budgets: Sequence[float] = (), window: float | None = None) -> FreshnessReport:
        """How fresh the copies are, what their polls found, and what other budgets would achieve.

        `budgets` in polls an hour; by default from a quarter to four times the present one. `window`:
        seconds to look back, at most; by default a week.
        """
        from fieldmouse.reader.freshness import WINDOW, read_freshness

        return read_freshness(self._home, time.time(), budgets=budgets, window=window or WINDOW)

    def packing(self, capacity: float, *, anew: bool = False) -> PackingPlan:
        """The number of nodes with `capacity` polls an hour that the sites need, and the node of each site.

        Starts from the plan that `fieldmouse pack` stored last, with few sites moved, unless `anew`.
        Stores nothing.
        """
        from fieldmouse.reader.polling_plan import pack

        return pack(self._home, capacity, time.time(), anew=anew)

    def status(self) -> CrawlStatus:
        """Process, pages and waiting URLs of the crawl. `print` it for a sentence."""
        from fieldmouse.reader.status import read_status

        return read_status(self._home)

    def doctor(self, *, deep: bool = False) -> list[Finding]:
        """Check the crawl directory and its accounts; one finding per check.

        Each finding has `healthy` and, if needed, `advice`. All files are read except the contents of WARC
        files, which `deep` reads too. Nothing is repaired: `fieldmouse doctor --repair` does that.
        """
        from fieldmouse.doctor.check.examine import check_crawl

        return list(check_crawl(self._home, deep=deep))

    def readings(self) -> Iterator[LiveStats]:
        """Statistics of the crawl, about one for each second of running, oldest first."""
        from fieldmouse.reader.status import read_readings

        return read_readings(self._home)

    def explain_no_pages(self) -> tuple[str, str]:
        """Why the crawl stored no page: a sentence about one URL, and a hint."""
        from fieldmouse.reader.missing import explain_no_pages

        return explain_no_pages(self._home)

    def settings(self) -> Settings:
        """The present settings in `fieldmouse.toml`."""
        from fieldmouse.config import settings_file

        return settings_file.load(self._home / "fieldmouse.toml")

    def control_periods(self) -> list[ControlPeriod]:
        """The rules that set the number of fetch workers, oldest first, each with its forecast and result."""
        from fieldmouse.control.control_log import control_periods

        return control_periods(self._home / "control.log")

    def page_trace(self) -> Rows:
        """The traced pages that reached the buffer, to fit a model to."""
        from fieldmouse.control.page_trace import read_trace_rows

        return read_trace_rows(self._home / "pages.trace")

    # -- full-text search

    def search(self, words: str, limit: int = 10) -> list[Hit]:
        """The best pages for `words`, best first, each with `url`, `title`, `snippet` and `score`.

        The syntax is that of `fieldmouse search`; the snippet has matches between `**`.
        """
        from fieldmouse.search.search import search_crawl

        self.newest_snapshot().check_index_exists()
        return search_crawl(self._home.path, words, limit)

    def search_versions(self, words: str, limit: int = 10) -> list[VersionHit]:
        """The same in all versions of all pages, including pages that are gone.

        Versions not in the index are read from the archive, about 2 ms each.
        """
        from fieldmouse.reader.versions import search_versions

        volume = self.newest_snapshot()
        volume.check_index_exists()
        return search_versions([volume], words, limit, lambda crawl, url: True)

    # -- display

    def __repr__(self) -> str:
        try:
            return f"<CrawlReader {self.status()}>"
        except (FieldmouseError, OSError) as trouble:
            return f"<CrawlReader `{self.path}`: {trouble}>"

    # former names
    still = pinned
    proposed_rules = propose_noise_rules
