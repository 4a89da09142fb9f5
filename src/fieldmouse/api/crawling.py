"""Public functions: `Crawl`, a crawl to iterate over in a loop, `crawl()`, which yields no pages, and `open()`."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, overload

from fieldmouse.api import crawl_preparation
from fieldmouse.api.background_run import BackgroundRun
from fieldmouse.api.crawl_preparation import CrawlPlan, plan
from fieldmouse.config.old_spellings import accept_old_arguments
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.types.stats import Summary

if TYPE_CHECKING:
    from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader
    from fieldmouse.reader.page import StoredPage


P = ParamSpec("P")

#: User code: `package.module:name`, or the function or class itself.
UserCode = str | Callable[..., object]


class Crawl:
    """A crawl that runs in a background thread while its pages are iterated.

        for page in fieldmouse.Crawl("atlas", seeds=["https://example.org/"]):
            print(page.title, page.url)

    Each page comes once, when it is durable. It counts as delivered when the loop asks for the next one;
    undelivered pages come first in the next run, and after a kill a few may come twice. Leaving the loop,
    by `break`, an error or Ctrl-C, stops the crawl in an orderly way, and the next run of the program
    continues it. A slow loop slows the crawl. In a running event loop:

        async with fieldmouse.Crawl("atlas", seeds=["https://example.org/"]) as crawl:
            async for page in crawl: ...

    The crawl starts when the first page is requested; until then nothing is created on disk.
    """

    @accept_old_arguments
    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        seeds: Iterable[str] = (),
        delay: float | str | None = None,
        pages: int | None = None,
        scope: str | None = None,
        follow_seed_redirects: bool | None = None,
        allow_private: bool | None = None,
        policy: UserCode | None = None,
        contact: str | None = None,
        resolve: Iterable[str] | None = None,
        time: float | str | None = None,
        depth: int | str | None = None,
        concurrency: int | None = None,
        control: str | None = None,
        extract: UserCode | None = None,
        admit: UserCode | None = None,
        readers: Mapping[str, UserCode] | None = None,
        sign: UserCode | None = None,
        retry_failed: bool = False,
        settings: Mapping[str, object] | None = None,
    ):
        """A new crawl in `directory`, or the existing one.

        The keywords are the options of `fieldmouse crawl`; None takes the value of `fieldmouse.toml`. For
        an existing crawl they hold for this run, and new seeds are added.

        seeds: URLs to start from.
        delay: seconds between two requests to one host, or text such as "500ms" or "500/h".
        pages: stop after this number of pages in all; 0 for no limit.
        scope: "page", "host", "site" or "web": how far to go from the seeds.
        follow_seed_redirects: a seed that redirects to another registered domain takes the crawl there.
        allow_private: also visit loopback and private addresses.
        policy: which hosts come first: a name, or a class of your own.
        contact: where you can be reached; sent to servers.
        resolve: addresses of names instead of DNS, such as "*.example.org=127.0.0.1:8000".
        time: stop after this number of seconds, or text such as "10m"; 0 for no limit.
        depth: links to follow away from a seed.
        concurrency: maximum number of concurrent fetches.
        control: "fixed", "thresholds" or "auto": how the number of concurrent fetches is chosen.
        extract: a function that makes rows from a page, for `export --items`.
        admit: a function that decides whether a link is followed.
        readers: functions that read documents of other MIME types, by type.
        sign: a function that returns headers for a request, for logins and tokens of your own sites.
        retry_failed: visit URLs of failed hosts again; with allow_private also those of private addresses.
        settings: any other setting, named as in `fieldmouse.toml`: {"limits.body": "4MiB"}.

        User code is given as "package.module:name", or as the object itself if it can be imported by name:
        workers are other processes, and a later resume must find it.

        Invalid arguments raise `FieldmouseError` here, before anything is created on disk.
        """
        given = crawl_preparation.crawl_directory(directory)
        self._words: dict[str, object] = {"pages": pages, "time": time, "depth": depth, "contact": contact}
        self._words |= {"delay": delay, "scope": scope, "follow_seed_redirects": follow_seed_redirects}
        self._words |= {"policy": policy, "concurrency": concurrency, "control": control, "sign": sign}
        self._words |= {"allow_private": allow_private, "resolve": _reusable(resolve), "readers": readers}
        self._words |= {"extract": extract, "admit": admit}
        self._changes = {} if settings is None else settings
        self._retry_failed = retry_failed
        self._seeds = _reusable(seeds)
        plan(given, self._words, self._changes, self._seeds)
        # The program may call `os.chdir` while it crawls; the crawl stays in its directory.
        self._path = given.absolute()
        self._run: BackgroundRun | None = None

    @property
    def path(self) -> Path:
        """Directory of the crawl."""
        return self._path

    @property
    def summary(self) -> Summary:
        """Summary of the last run; raises the exception that ended it."""
        if self._run is None:
            raise FieldmouseError(
                f"the crawl in `{self._path}` has not run", "iterate its pages, or use `fieldmouse.crawl`"
            )
        return self._run.summary

    # -- pages

    def __iter__(self) -> Iterator[StoredPage]:
        from fieldmouse.api.page_iterator import SyncPageIterator

        pages = SyncPageIterator(self._make_plan())
        self._run = pages.run
        return pages

    def __aiter__(self) -> AsyncIterator[StoredPage]:
        from fieldmouse.api.page_iterator import AsyncPageIterator

        pages = AsyncPageIterator(self._make_plan())
        self._run = pages.run
        return pages

    def _make_plan(self) -> CrawlPlan:
        if self._run is not None and self._run.stopping:
            raise UsageError(
                f"the crawl in `{self._path}` was left and is still stopping",
                "`await crawl.aclose()` waits for that, and so does `async with`",
            )
        if self._run is not None and self._run.running:
            raise UsageError(
                f"another loop iterates the pages of `{self._path}`",
                "leave that loop or `close` the crawl first; `fieldmouse.open` reads beside it",
            )
        made = plan(self._path, self._words, self._changes, self._seeds)
        return replace(made, retry_failed=self._retry_failed)

    def run(self) -> Summary:
        """Crawl to the end or a limit without iterating the pages; they stay undelivered."""
        self._run = BackgroundRun(self._make_plan())
        return self._run.wait_for_summary()

    # -- closing

    def close(self) -> None:
        """Stop the crawl in an orderly way if it runs, and wait until all is stored: some seconds at most."""
        if self._run is not None:
            self._run.request_stop()
            self._run.wait_until_ended()

    async def aclose(self) -> None:
        """`close` without blocking the event loop."""
        if self._run is not None:
            self._run.request_stop()
            await self._run.wait_until_ended_async()

    def __enter__(self) -> Crawl:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Crawl:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    # -- display

    def _state_text(self) -> str:
        if self._run is None:
            return "not begun" if not (self._path / "crawl.json").exists() else "not resumed"
        if self._run.running:
            return "stopping" if self._run.stopping else "crawling"
        mistake = self._run.exception
        return str(self._run.summary) if mistake is None else f"ended badly: {mistake}"

    def __repr__(self) -> str:
        return f"<Crawl {self._path}: {self._state_text()}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        return f"<b>Crawl</b> <code>{escape(str(self._path))}</code><br>{escape(self._state_text())}"


def _reusable(values: Any) -> Any:
    """A tuple of an iterable, which may then be iterated twice; other values are left for the validation."""
    return tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else values


def _with_arguments_of(crawl_class: Callable[P, Crawl]) -> Callable[[Callable[..., Summary]], Callable[P, Summary]]:
    """Give a function the signature of `Crawl`."""
    return functools.wraps(crawl_class, assigned=(), updated=())


@_with_arguments_of(Crawl)
def crawl(*args: Any, **keywords: Any) -> Summary:
    """Crawl to the end or a limit, without yielding pages, and return the summary.

    Takes the arguments of `Crawl`. Ctrl-C stops the crawl in an orderly way. `fieldmouse.open` reads the
    stored pages, also while the crawl runs.
    """
    return Crawl(*args, **keywords).run()


@overload
def open(directory: str | os.PathLike[str]) -> CrawlReader: ...  # type: ignore[overload-overlap]


@overload
def open(directory: Iterable[str | os.PathLike[str]]) -> MultiCrawlReader: ...


def open(directory: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> CrawlReader | MultiCrawlReader:
    """Open the crawl in `directory` for reading, also while it runs. Takes no lock and writes nothing.

    A list of directories is read as one crawl: of a page stored in several of them, the newest copy
    counts.
    """
    from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader

    # As in `Crawl`: the path must stay valid if the program calls `os.chdir`.
    if isinstance(directory, str | os.PathLike):
        return CrawlReader(Path(directory).absolute())
    return MultiCrawlReader(Path(path).absolute() for path in directory)
