"""One crawl, open for reading: what `fieldmouse.open` returns."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmouse.crawldir import CrawlDir, outcomes
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.reading.moment import Checkpoint, read_checkpoint
from fieldmouse.reading.naming import living_at, names_of, url_of
from fieldmouse.reading.page import StoredPage
from fieldmouse.reading.volume import Volume
from fieldmouse.records import OutcomeRow, Reading

if TYPE_CHECKING:
    from fieldmouse.control.controllog import Chapter
    from fieldmouse.control.pagetrace import Rows
    from fieldmouse.crawldir.news import Change
    from fieldmouse.indexer.search import Hit
    from fieldmouse.policy.packing.plan import PackingPlan
    from fieldmouse.reading.examination import Finding
    from fieldmouse.reading.explanation import Explanation
    from fieldmouse.reading.freshness import FreshnessReport
    from fieldmouse.reading.pastwords import VersionHit
    from fieldmouse.reading.proposals import RuleProposal
    from fieldmouse.reading.status import Status
    from fieldmouse.reading.versions import VersionDifference
    from fieldmouse.settings import Settings


class ReadingRoom:
    """The crawl in a directory, to be read while it is crawled and after. Takes no lock, writes nothing.

    Each question is answered as of the newest checkpoint when it is asked. A room may be
    kept open for as long as one likes and be asked from several threads.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        """`NotACrawl` if there is no crawl in `directory`."""
        self._path = CrawlDir.open(Path(directory)).path
        self._still: tuple[Checkpoint | None] | None = None  # None: as of the newest

    @property
    def path(self) -> Path:
        return self._path

    @property
    def way_to_poll(self) -> str:
        """The command that asks for its pages again."""
        return self._home.way_to_poll()

    @property
    def _home(self) -> CrawlDir:
        """Looked at for each question: the crawl may be gone since the last one, or be another."""
        return CrawlDir.open(self._path)

    def still(self) -> ReadingRoom:
        """The same crawl as of now: pages and rows stay the same there, however the crawl goes on."""
        room = ReadingRoom(self.path)
        room._still = (self._newest(),)
        return room

    def _newest(self) -> Checkpoint | None:
        return self._still[0] if self._still else read_checkpoint(self._home)

    def volume(self) -> Volume:
        """The crawl as of its newest checkpoint, or when it stood still, for whoever reads it with others."""
        return Volume(self._home, self._newest())

    def newest_volume(self) -> Volume:
        """As of now also in a room that is still: an index is only there as it is now."""
        home = self._home
        return Volume(home, read_checkpoint(home))

    # -- pages

    def pages(self, host: str | None = None) -> Iterator[StoredPage]:
        """Every stored page, the newest version of each, in the order in which they were stored.

        With `host` only those of that host or one below it, as `host:` in a search: "example.org" finds
        docs.example.org, too. The log is read twice, and takes eight bytes of memory a page.
        """
        is_wanted = None if host is None else living_at(host)
        volume = self.volume()
        for row in volume.pages():
            if is_wanted is None or is_wanted(row.url):
                yield volume.page(row)

    def page(self, url: str) -> StoredPage | None:
        """The newest version of one page; None if it is not stored.

        `url` is normalised as the crawler does it. The log is read through once: for many pages use `pages`.
        """
        volume = self.volume()
        for name in names_of(url):
            row = outcomes.page_of(volume.rows_of(name))
            if row is not None:
                return volume.page(row)
        return None

    def pages_from(self, start: int) -> Iterator[tuple[StoredPage, int]]:
        """Every stored page from byte `start` of the outcome log on, each with the offset behind it.

        Ends at the newest checkpoint. Whoever keeps the offset goes on from there, now or after a kill: what
        a checkpoint holds stays. A page that was fetched again comes again.
        """
        if start < 0:
            raise UsageError(f"there is no byte {start} of the outcome log", "begin at 0, or where you ended")
        volume = self.volume()
        for row, end in outcomes.pages_from(volume.home, start, length=volume.length):
            yield volume.page(row), end

    def rows(self) -> Iterator[OutcomeRow]:
        """Every outcome, oldest first: also what moved, failed or was refused."""
        yield from self.volume().rows()

    def items(self, *, all: bool = False) -> Iterator[dict[str, Any]]:
        """The rows that `plugins.extract` made of the pages, as `export --items` writes them.

        Of each page's newest version, or with `all` of every version. A row has the `url` of its page and
        when that was fetched, unless it says so itself.
        """
        volume = self.volume()
        for row in volume.rows() if all else volume.pages():
            yield from volume.items_of(row)

    # -- what changed

    def changes(
        self, since: float | datetime | timedelta | None = None, host: str | None = None
    ) -> Iterator[Change]:
        """Pages that are new, changed, gone or moved, each time that happened, as it became known.

        `since` is a moment (epoch seconds or a datetime), or how long before now; `host` as in `pages`.
        Changes that proved to be noise are left out, and so is what the rules in `[noise]` ignore now.
        """
        from fieldmouse.reading.changes import list_changes
        from fieldmouse.reading.dates import moment_of
        from fieldmouse.settings.rules import noise_of

        volume = self.volume()
        if volume.last is not None:
            is_wanted = None if host is None else living_at(host)
            rules = noise_of(self.settings())
            told = list_changes([volume], rules, since=moment_of(since), is_wanted=is_wanted)
            yield from (change for change, _ in told)

    def versions(self, url: str) -> list[StoredPage]:
        """Every version of one page that is stored, oldest first, each other than the one before it.

        A look that found the same bytes is no version; one that found other bytes is, even if only noise
        differs (`version.row.news` tells).
        """
        from fieldmouse.reading.versions import versions_of

        volume = self.volume()
        found = (versions_of(volume.rows_of(name)) for name in names_of(url))
        return [volume.page(row) for row in next(filter(None, found), [])]

    def difference(
        self, url: str, old: str | int | None = None, new: str | int | None = None
    ) -> VersionDifference:
        """What a reader would see differ between two versions of a page.

        Versions are named by number (1 is the oldest, -1 the newest) or by a moment at which they stood,
        such as "2026-11-16"; without names it is the newest change and what was there before it.
        """
        from fieldmouse.reading.versions import difference_of
        from fieldmouse.settings.rules import noise_of

        return difference_of(url_of(url), self.versions(url), noise_of(self.settings()), old, new)

    def proposed_rules(self, host: str | None = None) -> list[RuleProposal]:
        """Rules for `[noise]` that would ignore what differs at every look at pages of this crawl."""
        from fieldmouse.reading.proposals import propose

        volume = self.volume()
        if volume.last is None:
            return []
        is_wanted = None if host is None else living_at(host)
        return propose(volume.home, volume.last, volume.library, self.settings(), is_wanted)

    # -- what happened

    def explain(self, url: str) -> Explanation:
        """When `url` was seen, from where, what came of it, and how its host stands."""
        from fieldmouse.reading.explanation import explain

        return explain(self._home, url_of(url))

    def freshness(self, budgets: Sequence[float] = (), window: float | None = None) -> FreshnessReport:
        """How fresh the copies are, what polls of them brought, and what other budgets would bring.

        `budgets` in polls an hour; by default from a quarter to four times the present one. `window`: how
        many seconds back to measure, at most; a week by default.
        """
        from fieldmouse.reading.freshness import WINDOW, read_freshness

        return read_freshness(self._home, time.time(), budgets=budgets, window=window or WINDOW)

    def packing(self, capacity: float, *, anew: bool = False) -> PackingPlan:
        """How many nodes of `capacity` polls an hour the sites need, and which go to which.

        From the plan that `fieldmouse pack` kept last, with few sites moved, unless `anew`. Nothing is kept.
        """
        from fieldmouse.reading.packing import pack

        return pack(self._home, capacity, time.time(), anew=anew)

    def status(self) -> Status:
        """How the crawl stands: who crawls, how many pages, what waits. `print` it for a sentence."""
        from fieldmouse.reading.status import read_status

        return read_status(self._home)

    def doctor(self, *, deep: bool = False) -> list[Finding]:
        """Is everything in order, and do the books balance? One finding per thing that could be wrong.

        Each says so in `healthy`, and what to do in `advice`. All files are read but for the insides of WARC
        files, which `deep` reads, too. Nothing is mended: `fieldmouse doctor --repair` does that.
        """
        from fieldmouse.reading.examination import examine

        return list(examine(self._home, deep=deep))

    def readings(self) -> Iterator[Reading]:
        """The crawl's vital signs, about one for each second that it ran, oldest first."""
        from fieldmouse.reading.status import read_readings

        return read_readings(self._home)

    def why_nothing(self) -> tuple[str, str]:
        """Why a crawl without a page has none: a sentence about one URL, and the hint that fits."""
        from fieldmouse.reading.emptiness import why_nothing

        return why_nothing(self._home)

    def settings(self) -> Settings:
        """What was asked of the crawl, as its `fieldmouse.toml` has it now."""
        from fieldmouse import settings

        return settings.load(self._home / "fieldmouse.toml")

    def chapters(self) -> list[Chapter]:
        """The rules that governed the robots, oldest first: what was expected of each, and how it went."""
        from fieldmouse.control.controllog import chapters

        return chapters(self._home / "control.log")

    def trace(self) -> Rows:
        """The pages that came to the buffer, as far as they were traced: what a model is fitted to."""
        from fieldmouse.control.pagetrace import read_rows

        return read_rows(self._home / "pages.trace")

    # -- words

    def search(self, words: str, limit: int = 10) -> list[Hit]:
        """The best pages for `words`, best first, each with `url`, `title`, `snippet` and `score`.

        The grammar is that of `fieldmouse search`, and found words stand between `**` in the snippet.
        """
        from fieldmouse.indexer.search import search

        self.newest_volume().see_that_its_index_is_there()
        return search(self._home.path, words, limit)

    def search_versions(self, words: str, limit: int = 10) -> list[VersionHit]:
        """The same in all versions of all pages, those that are no longer shown included.

        They are read from the archive, about 2 ms for each that was replaced or is gone.
        """
        from fieldmouse.reading.pastwords import search_versions

        volume = self.newest_volume()
        volume.see_that_its_index_is_there()
        return search_versions([volume], words, limit, lambda crawl, url: True)

    # -- for people

    def __repr__(self) -> str:
        try:
            return f"<ReadingRoom {self.status()}>"
        except (FieldmouseError, OSError) as trouble:
            return f"<ReadingRoom `{self.path}`: {trouble}>"
