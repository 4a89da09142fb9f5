"""What will be done, said before anything is: a new crawl, or one that goes on.

All that can be wrong with what was asked is found while a plan is made, and a plan
makes nothing on the disk. `open` does, and may be called once for each run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fieldmouse import settings as settings_file
from fieldmouse.api import asking
from fieldmouse.api.seedlist import with_seeds
from fieldmouse.balancer.identity import NAMELESS
from fieldmouse.crawldir import (
    AGENT_FILE,
    OWNER_ONLY,
    CrawlDir,
    is_open_to_others,
    read_checkpoint,
    sealed_tally,
    write_settings,
)
from fieldmouse.errors import CrawlExists, Damaged, UsageError, storing, typed
from fieldmouse.outcome import StoppedBy
from fieldmouse.plugins.names import PluginNames
from fieldmouse.policy.distribution.lookup import strategy
from fieldmouse.settings import Settings
from fieldmouse.settings.freshness import POLLING
from fieldmouse.settings.order import Order
from fieldmouse.url import Url


@dataclass(frozen=True, slots=True)
class Plan:
    """A crawl as it will be run: where, with which settings, from which seeds."""

    directory: Path
    settings: Settings
    seeds: tuple[Url, ...]  # all that are known; those seen before are not visited again
    new: bool  # the directory is yet to be made
    added: tuple[Url, ...] = ()  # seeds that the crawl did not know
    order: Order | None = None  # known pages are polled, whatever the settings say
    lifted: tuple[str, ...] = ()  # limits that have done their work and hold no more: pages, time
    boards: tuple[str, ...] = ()  # where agents of a network meet; none for a crawl of its own
    crawl: str = ""  # what it is called there
    key_seed: int | None = None  # the secret that its agents share

    def open(self) -> CrawlDir:
        """The crawl's directory, made if it is new, and locked; whoever opens it unlocks it."""
        if self.new:
            shards = self.settings.index.shards or len(os.sched_getaffinity(0))
            text = settings_file.render(self.settings)
            with storing(self.directory):
                home = CrawlDir.create(
                    self.directory, shards=shards, settings=text.encode(), key_seed=self.key_seed,
                    agent=NAMELESS if self.boards else b"", private=bool(self.settings.secrets),
                )  # fmt: skip
        else:
            home = CrawlDir.open(self.directory)
        with storing(self.directory):
            home.lock()
            try:
                self._update_settings(home)
            except BaseException:
                home.unlock(as_found=True)
                raise
        return home

    def _update_settings(self, home: CrawlDir) -> None:
        """Add new seeds to the settings file, and close it to others if it holds secrets."""
        home.check_files()
        if self.added:  # before they are visited: their scope must be known to whoever goes on after a kill
            text = with_seeds((home / "fieldmouse.toml").read_text(encoding="utf-8"), self.added)
            write_settings(home.path, text.encode(), private=bool(settings_file.parse(text).secrets))
        elif is_open_to_others(home.path) and settings_file.load(home / "fieldmouse.toml").secrets:
            with suppress(PermissionError):  # a file of somebody else's; the doctor tells of it
                (home / "fieldmouse.toml").chmod(OWNER_ONLY)


def plan(
    directory: Path, words: Mapping[str, object], changes: Mapping[str, object], seeds: Iterable[str] = ()
) -> Plan:
    """A crawl that goes on where there is one, and is new where there is none."""
    make = plan_to_resume if (directory / "crawl.json").exists() else plan_anew
    return make(directory, words, changes, seeds)


def plan_anew(
    directory: Path,
    words: Mapping[str, object],
    changes: Mapping[str, object],
    seeds: Iterable[str] = (),
    config: Path | None = None,
) -> Plan:
    """A crawl in a directory that has none yet; its settings begin with those of `config`."""
    if (directory / "crawl.json").exists():
        raise CrawlExists(directory)
    ready = directory / "fieldmouse.toml"
    if config is None and ready.is_file():
        config = ready
    base = settings_file.load(config) if config is not None else Settings()
    settings = asking.applied(base, words, changes)
    wanted = tuple(asking.seeds_of([*settings.crawl.seeds, *_listed(seeds)]))
    if not wanted:
        raise UsageError(
            "no seed is given, and so there is nowhere to begin",
            f"name a URL: `fieldmouse crawl {typed(directory)} --seed https://...`,"
            " or `seeds=[...]` in Python",
        )
    settings = settings.override({"crawl.seeds": wanted})
    check(settings, directory)
    CrawlDir.check_vacant(directory)
    return Plan(directory, settings, wanted, new=True)


def plan_to_resume(
    directory: Path, words: Mapping[str, object], changes: Mapping[str, object], seeds: Iterable[str] = ()
) -> Plan:
    """A crawl that goes on. What is asked for holds for this run; new seeds stay.

    A limit that was reached has done its work: unless there is a new one the crawl goes on to its end.
    """
    from fieldmouse.frontier import sealed_frontier

    home = CrawlDir.open(directory)
    if (directory / AGENT_FILE).exists():
        raise UsageError(
            f"the crawl in `{directory}` is an agent of a network",
            f"continue it with `fieldmouse agent {typed(directory)} --coordinator URL`",
        )
    kept = settings_file.load(home / "fieldmouse.toml")
    known = asking.seeds_of(kept.crawl.seeds)
    if not known:
        raise Damaged(home / "fieldmouse.toml", "it names no seeds, and every crawl has some")
    last, lifted = read_checkpoint(home), []

    def said(limit: str) -> bool:
        return words.get(limit) is not None or f"crawl.{limit}" in changes

    if last is not None:
        waiting = bool(sealed_frontier(last).waiting)
        if 0 < kept.crawl.pages <= sealed_tally(last).discovered_pages:
            kept = kept.override({"crawl.pages": 0})
            lifted += ["pages"] if waiting and not said("pages") else []
        if kept.crawl.time and last.stopped_by is StoppedBy.TIME:
            kept = kept.override({"crawl.time": "0s"})
            lifted += ["time"] if waiting and not said("time") else []
    settings = asking.applied(kept, words, changes)
    wanted = tuple(asking.seeds_of([*known, *settings.crawl.seeds, *_listed(seeds)]))
    settings = settings.override({"crawl.seeds": wanted})
    check(settings, directory)
    added = tuple(seed for seed in wanted if seed not in set(known))
    return Plan(directory, settings, wanted, new=False, added=added, lifted=tuple(lifted))


def check(settings: Settings, directory: Path) -> None:
    """What settings cannot know of themselves: is what they name there, and what we take it for?"""
    strategy(settings.frontier.policy)
    if settings.refresh.policy not in POLLING:
        from fieldmouse.policy.polling import lookup  # slow to load, and rarely wanted

        lookup.policy(settings.refresh.policy)
    PluginNames.of(settings.plugins).check()
    if settings.network.ca_file:
        from fieldmouse.web.tls import trust

        trust(ca_file=Path(settings.network.ca_file))
    if settings.network.source:
        from fieldmouse.web.source import SourceAddress

        SourceAddress(settings.network.source).check()
    if settings.notify.channels:
        from fieldmouse.notify import outfit

        outfit.check(directory, settings)


def _listed(seeds: Iterable[str]) -> list[str]:
    if isinstance(seeds, str):
        return [seeds]
    if not isinstance(seeds, Iterable):
        raise UsageError(f"`seeds` is {seeds!r}, and no list of URLs", 'write it as seeds=["https://..."]')
    return list(seeds)
