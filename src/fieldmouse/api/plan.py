"""Plan of a crawl, new or resumed, with all checks that are possible before anything is created.

Making a plan validates its arguments and creates nothing on disk. `open` does, and may be called once per
run.
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
    """A crawl to be run: its directory, settings and seeds."""

    directory: Path
    settings: Settings
    seeds: tuple[Url, ...]  # all seeds; those seen before are not visited again
    new: bool  # the directory does not exist yet
    added: tuple[Url, ...] = ()  # seeds that are new to the crawl
    order: Order | None = None  # poll known pages, whatever the settings say
    lifted: tuple[str, ...] = ()  # limits that were reached and no longer hold: pages, time
    boards: tuple[str, ...] = ()  # URLs of the coordinator; empty without a cluster
    crawl: str = ""  # name of the crawl on the coordinator
    key_seed: int | None = None  # secret shared by its agents

    def open(self) -> CrawlDir:
        """The crawl directory, created if it is new, and locked; the caller unlocks it."""
        if self.new:
            with storing(self.directory):
                home = self._create()
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

    def _create(self) -> CrawlDir:
        shards = self.settings.index.shards or len(os.sched_getaffinity(0))
        text = settings_file.render(self.settings).encode()
        agent, private = NAMELESS if self.boards else b"", bool(self.settings.secrets)
        return CrawlDir.create(
            self.directory, shards=shards, settings=text, key_seed=self.key_seed, agent=agent, private=private
        )

    def _update_settings(self, home: CrawlDir) -> None:
        """Add new seeds to the settings file, and make it private if it holds secrets."""
        home.check_files()
        if self.added:  # before the first visit: a resume after a kill must know their scope
            text = with_seeds((home / "fieldmouse.toml").read_text(encoding="utf-8"), self.added)
            write_settings(home.path, text.encode(), private=bool(settings_file.parse(text).secrets))
        elif is_open_to_others(home.path) and settings_file.load(home / "fieldmouse.toml").secrets:
            with suppress(PermissionError):  # a file of another user; doctor reports it
                (home / "fieldmouse.toml").chmod(OWNER_ONLY)


def plan(
    directory: Path, words: Mapping[str, object], changes: Mapping[str, object], seeds: Iterable[str] = ()
) -> Plan:
    """Plan to resume the crawl in `directory` if there is one, otherwise a new crawl."""
    make = plan_to_resume if (directory / "crawl.json").exists() else plan_anew
    return make(directory, words, changes, seeds)


def plan_anew(
    directory: Path,
    words: Mapping[str, object],
    changes: Mapping[str, object],
    seeds: Iterable[str] = (),
    config: Path | None = None,
) -> Plan:
    """Plan a new crawl; settings start from those of `config`. Raises `CrawlExists` if there is a crawl."""
    if (directory / "crawl.json").exists():
        raise CrawlExists(directory)
    ready = directory / "fieldmouse.toml"
    if config is None and ready.is_file():
        config = ready
    base = settings_file.load(config) if config is not None else Settings()
    settings = asking.applied(base, words, changes)
    wanted = tuple(asking.seeds_of([*settings.crawl.seeds, *_seed_list(seeds)]))
    if not wanted:
        raise UsageError(
            "no seed is given",
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
    """Plan to resume a crawl. Changed settings hold for this run; new seeds stay.

    A limit that was reached no longer holds: without a new one the crawl runs to its end.
    """
    from fieldmouse.frontier import sealed_frontier

    home = CrawlDir.open(directory)
    if (directory / AGENT_FILE).exists():
        raise UsageError(
            f"the crawl in `{directory}` is an agent of a cluster",
            f"continue it with `fieldmouse agent {typed(directory)} --coordinator URL`",
        )
    kept = settings_file.load(home / "fieldmouse.toml")
    old_seeds = asking.seeds_of(kept.crawl.seeds)
    if not old_seeds:
        raise Damaged(home / "fieldmouse.toml", "it names no seeds, and every crawl has some")
    last, lifted = read_checkpoint(home), []

    def is_given(limit: str) -> bool:
        return words.get(limit) is not None or f"crawl.{limit}" in changes

    if last is not None:
        waiting = bool(sealed_frontier(last).waiting)
        if 0 < kept.crawl.pages <= sealed_tally(last).discovered_pages:
            kept = kept.override({"crawl.pages": 0})
            lifted += ["pages"] if waiting and not is_given("pages") else []
        if kept.crawl.time and last.stopped_by is StoppedBy.TIME:
            kept = kept.override({"crawl.time": "0s"})
            lifted += ["time"] if waiting and not is_given("time") else []
    settings = asking.applied(kept, words, changes)
    wanted = tuple(asking.seeds_of([*old_seeds, *settings.crawl.seeds, *_seed_list(seeds)]))
    settings = settings.override({"crawl.seeds": wanted})
    check(settings, directory)
    added = tuple(seed for seed in wanted if seed not in set(old_seeds))
    return Plan(directory, settings, wanted, new=False, added=added, lifted=tuple(lifted))


def check(settings: Settings, directory: Path) -> None:
    """Check that the things named in the settings exist and are of the right kind."""
    strategy(settings.frontier.policy)
    if settings.refresh.policy not in POLLING:
        from fieldmouse.policy.polling import lookup  # slow to import, and rarely needed

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


def _seed_list(seeds: Iterable[str]) -> list[str]:
    if isinstance(seeds, str):
        return [seeds]
    if not isinstance(seeds, Iterable):
        raise UsageError(f"`seeds` is {seeds!r}, and no list of URLs", 'write it as seeds=["https://..."]')
    return list(seeds)
