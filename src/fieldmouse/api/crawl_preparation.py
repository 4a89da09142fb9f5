"""Plan of a crawl, new or resumed, with all checks that are possible before anything is created, and its execution.

Keywords of the library and options of the command are two spellings of one setting, so both are converted
here, by the reader of `fieldmouse.toml`, and raise the same errors. None means not given; 0 and False are
values. Making a plan creates nothing on disk; `open` does, and may be called once per run. Seeds are
added to an existing `fieldmouse.toml` without changing the rest, because people edit the file and write
comments.
"""

from __future__ import annotations

import asyncio
import os
import re
import tomllib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmouse import url
from fieldmouse.cluster.client.identity import UNJOINED_IDENTITY
from fieldmouse.config import old_spellings, settings_file
from fieldmouse.config.rules_from_settings import plugins_of
from fieldmouse.config.sections import LIVE_POLICIES, RefreshRunMode
from fieldmouse.config.settings_file import Settings
from fieldmouse.config.values import SEEDS
from fieldmouse.errors import CrawlExists, DamagedFile, StoppedImmediately, UsageError, shell_quoted, storage_errors
from fieldmouse.import_string import import_name_of
from fieldmouse.policy.distribution.registry import find_policy_class
from fieldmouse.storage.checkpoint import read_checkpoint, sealed_counters
from fieldmouse.storage.directory import AGENT_FILE, OWNER_ONLY, CrawlDir, settings_readable_by_others, write_settings
from fieldmouse.types.reason import OutcomeReason, StoppedBy
from fieldmouse.types.stats import LiveStats, Summary
from fieldmouse.url import Url

if TYPE_CHECKING:
    from fieldmouse.crawler.builder import OpenDurable
    from fieldmouse.crawler.cluster_agent import CrawlToJoin
    from fieldmouse.crawler.crawler import ConsumerBackpressure
    from fieldmouse.crawler.retry_failed import RetryFailed
    from fieldmouse.crawler.run import CrawlRun


#: The setting of each keyword.
KEYWORD_SETTINGS = {
    "pages": "crawl.pages",
    "time": "crawl.time",
    "depth": "crawl.max_depth",
    "contact": "crawl.contact",
    "delay": "politeness.delay",
    "scope": "scope.mode",
    "follow_seed_redirects": "scope.follow_seed_redirects",
    "policy": "frontier.policy",
    "concurrency": "fetch.concurrency",
    "control": "control.mode",
    "resolve": "network.resolve",
    "allow_private": "network.allow_private",
    "extract": "plugins.extract",
    "admit": "plugins.admit",
    "readers": "plugins.readers",
    "sign": "plugins.sign",
}

#: Keywords that take user code: its name, or the object itself if it can be imported by name.
CODE_KEYWORDS = ("policy", "extract", "admit", "sign")

_IN_SECONDS = ("delay", "time")
_LISTS = ("resolve",)


def apply_keywords(base: Settings, words: Mapping[str, object], changes: Mapping[str, object]) -> Settings:
    """`base` with the keywords applied, then `changes`, which use the names of `fieldmouse.toml`."""
    dotted = {KEYWORD_SETTINGS[word]: _to_toml_value(word, value) for word, value in words.items() if value is not None}
    if not isinstance(changes, Mapping) or not all(isinstance(name, str) for name in changes):
        raise UsageError(
            f"`settings` is {changes!r}, and no table of settings", 'write it as settings={"limits.body": "4MiB"}'
        )
    return base.override(dotted | old_spellings.with_present_names(changes))


def _to_toml_value(word: str, value: object) -> object:
    """The value in TOML form: seconds with a unit, code by its name, any iterable as a list."""
    if word in CODE_KEYWORDS:
        return import_name_of(value, word)
    if word == "readers" and isinstance(value, Mapping):
        return {mime: import_name_of(code, "reader") for mime, code in value.items()}
    if word in _IN_SECONDS and isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:f}s" if isinstance(value, float) else f"{value}s"
    if word in _LISTS and isinstance(value, Iterable) and not isinstance(value, str):
        return list(value)
    return value


def crawl_directory(given: str | os.PathLike[str]) -> Path:
    """The directory of a crawl. Raises `UsageError` for a URL, which was meant as a seed."""
    text = os.fspath(given)
    seed = url.parse(text) if text.lower().startswith(("http://", "https://")) else None
    if seed is not None:
        site = url.site_of(url.hostname_of(url.host_of(seed)))
        name = site.partition(".")[0] if site[:1].isalpha() and site != url.LOOPBACK else "atlas"
        raise UsageError(
            f"`{text}` is a URL, and the first argument is the directory of the crawl",
            f"`fieldmouse crawl {shell_quoted(name)} --seed {shell_quoted(seed)}`,"
            f' or `fieldmouse.Crawl("{name}", seeds=["{seed}"])` in Python',
        )
    return Path(given)


def parse_seeds(given: Iterable[str]) -> list[Url]:
    """The seed URLs, normalised, each once."""
    if not isinstance(given, Iterable):
        raise UsageError(f"`seeds` is {given!r}, and no list of URLs", 'write it as seeds=["https://..."]')
    seeds: dict[Url, None] = {}
    for text in [given] if isinstance(given, str) else given:
        if not isinstance(text, str):
            raise UsageError(f"`{text}` is no URL we can crawl", "a seed begins with http:// or https://")
        seeds[url.parse_seed(text)] = None
    return list(seeds)


_SECTION = re.compile(r"^[ \t]*\[crawl\][^\n]*\n?", re.MULTILINE)
_KEY = re.compile(r"^[ \t]*seeds[ \t]*=[ \t]*", re.MULTILINE)
_NEXT = re.compile(r"^[ \t]*\[", re.MULTILINE)


def settings_text_with_seeds(text: str, added: Sequence[str]) -> str:
    """The text of a settings file with more seeds in it.

    >>> print(settings_text_with_seeds('[crawl]\\nseeds = ["http://a/"] # mine\\n', ["http://b/"]), end="")
    [crawl]
    seeds = ["http://a/", "http://b/"] # mine
    """
    before = settings_file.parse(text)
    wanted = before.override({"crawl.seeds": [*before.crawl.seeds, *added]})
    edited = _with_seeds_value(text, SEEDS.write(wanted.crawl.seeds))
    try:
        if tomllib.loads(edited) and settings_file.parse(edited) == wanted:
            return edited
    except tomllib.TOMLDecodeError:
        pass
    return settings_file.render(wanted)  # unusual syntax: correct settings matter more than the layout


def _with_seeds_value(text: str, value: str) -> str:
    section = _SECTION.search(text)
    if section is None:
        return f"{text.rstrip()}\n\n[crawl]\nseeds = {value}\n"
    following = _NEXT.search(text, section.end())
    key = _KEY.search(text, section.end(), following.start() if following else len(text))
    if key is None:
        return f"{text[: section.end()].rstrip()}\nseeds = {value}\n{text[section.end() :]}"
    return text[: key.end()] + value + text[_end_of_list(text, key.end()) :]


def _end_of_list(text: str, start: int) -> int:
    """End of the list that begins at `start`: after the first bracket that makes it valid TOML."""
    end = start
    while (end := text.find("]", end) + 1) > 0:
        try:
            tomllib.loads(f"list = {text[start:end]}")
        except tomllib.TOMLDecodeError:
            continue
        return end
    return start


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    """A crawl to be run: its directory, settings and seeds."""

    directory: Path
    settings: Settings
    seeds: tuple[Url, ...]  # all seeds; those seen before are not visited again
    new: bool  # the directory does not exist yet
    new_seeds: tuple[Url, ...] = ()  # seeds that are new to the crawl
    refresh_order: RefreshRunMode | None = None  # poll known pages, whatever the settings say
    lifted_limits: tuple[str, ...] = ()  # limits that were reached and no longer hold: pages, time
    coordinators: tuple[str, ...] = ()  # URLs of the coordinator; empty without a cluster
    crawl: str = ""  # name of the crawl on the coordinator
    key_seed: int | None = None  # secret shared by its agents
    retry_failed: bool = False  # visit again what failed; for runs from Python

    def open_and_lock(self) -> CrawlDir:
        """The crawl directory, created if it is new, and locked; the caller unlocks it."""
        if self.new:
            with storage_errors(self.directory):
                home = self._create_directory()
        else:
            home = CrawlDir.open(self.directory)
        with storage_errors(self.directory):
            home.lock()
            try:
                self._update_settings_file(home)
            except BaseException:
                home.unlock(as_found=True)
                raise
        return home

    def _create_directory(self) -> CrawlDir:
        shards = self.settings.index.shards or len(os.sched_getaffinity(0))
        text = settings_file.render(self.settings).encode()
        agent, private = UNJOINED_IDENTITY if self.coordinators else b"", bool(self.settings.secret_names)
        return CrawlDir.create(
            self.directory, shards=shards, settings=text, key_seed=self.key_seed, agent=agent, private=private
        )

    def _update_settings_file(self, home: CrawlDir) -> None:
        """Add new seeds to the settings file, and make it private if it holds secrets."""
        home.check_regular_files()
        if self.new_seeds:  # before the first visit: a resume after a kill must know their scope
            text = settings_text_with_seeds((home / "fieldmouse.toml").read_text(encoding="utf-8"), self.new_seeds)
            write_settings(home.path, text.encode(), private=bool(settings_file.parse(text).secret_names))
        elif settings_readable_by_others(home.path) and settings_file.load(home / "fieldmouse.toml").secret_names:
            with suppress(PermissionError):  # a file of another user; doctor reports it
                (home / "fieldmouse.toml").chmod(OWNER_ONLY)


def plan(
    directory: Path, words: Mapping[str, object], changes: Mapping[str, object], seeds: Iterable[str] = ()
) -> CrawlPlan:
    """Plan to resume the crawl in `directory` if there is one, otherwise a new crawl."""
    make = plan_to_resume if (directory / "crawl.json").exists() else plan_new
    return make(directory, words, changes, seeds)


def plan_new(
    directory: Path,
    words: Mapping[str, object],
    changes: Mapping[str, object],
    seeds: Iterable[str] = (),
    config: Path | None = None,
) -> CrawlPlan:
    """Plan a new crawl; settings start from those of `config`. Raises `CrawlExists` if there is a crawl."""
    if (directory / "crawl.json").exists():
        last = read_checkpoint(CrawlDir.open(directory))
        raise CrawlExists(directory, has_pages=last is not None and sealed_counters(last).first_fetched_pages > 0)
    ready = directory / "fieldmouse.toml"
    if config is None and ready.is_file():
        config = ready
    base = settings_file.load(config) if config is not None else Settings()
    settings = apply_keywords(base, words, changes)
    wanted = tuple(parse_seeds([*settings.crawl.seeds, *parse_seeds(seeds)]))
    if not wanted:
        raise UsageError(
            "no seed is given",
            f"name a URL: `fieldmouse crawl {shell_quoted(directory)} --seed https://...`, or `seeds=[...]` in Python",
        )
    settings = settings.override({"crawl.seeds": wanted})
    check_settings(settings, directory)
    CrawlDir.check_can_create(directory)
    return CrawlPlan(directory, settings, wanted, new=True)


def plan_to_resume(
    directory: Path, words: Mapping[str, object], changes: Mapping[str, object], seeds: Iterable[str] = ()
) -> CrawlPlan:
    """Plan to resume a crawl. Changed settings hold for this run; new seeds stay.

    A limit that was reached no longer holds: without a new one the crawl runs to its end.
    """
    from fieldmouse.frontier.durable_parts import frontier_state_of

    home = CrawlDir.open(directory, to_resume=True)
    if (directory / AGENT_FILE).exists():
        raise UsageError(
            f"the crawl in `{directory}` is an agent of a cluster",
            f"continue it with `fieldmouse agent {shell_quoted(directory)} --coordinator URL`",
        )
    kept = settings_file.load(home / "fieldmouse.toml")
    old_seeds = parse_seeds(kept.crawl.seeds)
    if not old_seeds:
        raise DamagedFile(home / "fieldmouse.toml", "it names no seeds, and every crawl has some")
    last, lifted = read_checkpoint(home), []

    def is_given(limit: str) -> bool:
        return words.get(limit) is not None or f"crawl.{limit}" in changes

    if last is not None:
        waiting = bool(frontier_state_of(last).waiting)
        if 0 < kept.crawl.pages <= sealed_counters(last).first_fetched_pages:
            kept = kept.override({"crawl.pages": 0})
            lifted += ["pages"] if waiting and not is_given("pages") else []
        if kept.crawl.time and last.stopped_by is StoppedBy.TIME_LIMIT:
            kept = kept.override({"crawl.time": "0s"})
            lifted += ["time"] if waiting and not is_given("time") else []
    settings = apply_keywords(kept, words, changes)
    wanted = tuple(parse_seeds([*old_seeds, *settings.crawl.seeds, *parse_seeds(seeds)]))
    settings = settings.override({"crawl.seeds": wanted})
    check_settings(settings, directory)
    added = tuple(seed for seed in wanted if seed not in set(old_seeds))
    return CrawlPlan(directory, settings, wanted, new=False, new_seeds=added, lifted_limits=tuple(lifted))


def check_settings(settings: Settings, directory: Path) -> None:
    """Check that the things named in the settings exist and are of the right kind."""
    find_policy_class(settings.frontier.policy)
    if settings.refresh.policy not in LIVE_POLICIES:
        from fieldmouse.policy.polling import registry  # slow to import, and rarely needed

        registry.create_policy(settings.refresh.policy)
    plugins_of(settings).check_loadable()
    if settings.network.ca_file:
        from fieldmouse.http.connection import create_tls_context

        create_tls_context(ca_file=Path(settings.network.ca_file))
    if settings.network.source:
        from fieldmouse.http.connection import SourceAddress

        SourceAddress(settings.network.source).check_is_local()
    if settings.notify.channel_names:
        from fieldmouse.notify import setup

        setup.check_channels(directory, settings)


def run_plan(
    plan: CrawlPlan,
    *,
    runner: Callable[[Coroutine[Any, Any, Summary]], Summary] = asyncio.run,
    on_reading: Callable[[LiveStats], None] | None = None,
    on_open: Callable[[CrawlRun], None] = lambda life: None,
    retry_failed: RetryFailed | None = None,
    parts: Sequence[OpenDurable] = (),
    audience: ConsumerBackpressure | None = None,
) -> Summary:
    """Crawl as planned until done, stopped by a limit, or interrupted.

    `on_open` is called in the loop when everything is open. Signal handlers and other state of the process
    are left to the caller.
    """
    from fieldmouse.crawler.run import CrawlRun  # imports the whole crawler

    home = plan.open_and_lock()
    try:
        with storage_errors(home.path):
            listeners = [on_reading] if on_reading else []
            make = partial(
                CrawlRun, home, plan.settings, plan.seeds, order=plan.refresh_order, joining=_join_request_of(plan)
            )
            life = make(listeners=listeners, on_open=on_open, retry_failed=retry_failed, parts=parts, audience=audience)
            summary = runner(life.run())
    except StoppedImmediately:
        # Threads may still write: keep the lock until the process ends.
        raise
    except BaseException:
        home.unlock()
        raise
    home.unlock()
    return summary


def _join_request_of(plan: CrawlPlan) -> CrawlToJoin | None:
    if not plan.coordinators:
        return None
    from fieldmouse.cluster.client.session import open_coordinator
    from fieldmouse.crawler.cluster_agent import CrawlToJoin

    return CrawlToJoin(open_coordinator(plan.coordinators, plan.crawl), plan.crawl)


def explain_failed_run(summary: Summary, directory: Path) -> tuple[str, str]:
    """Message and hint for a run that stored no page, or in which every poll failed: exit code 1."""
    from fieldmouse.reader.crawl_reader import CrawlReader  # a crawl needs it only here

    if summary.pages and summary.refreshed is not None:
        reason = max(summary.refreshed.reasons, key=summary.refreshed.reasons.__getitem__)
        if reason == OutcomeReason.PRIVATE_ADDRESS:
            file = shell_quoted(directory / "fieldmouse.toml")
            return f"no poll succeeded: {reason}", f"set `network.allow_private` to true in {file} to visit such hosts"
        return f"no poll succeeded: {reason}", "run the same command again once the site is reachable"
    # With pages of earlier runs, exit code 1 means that this one met only private addresses.
    return CrawlReader(directory).explain_no_pages(OutcomeReason.PRIVATE_ADDRESS if summary.pages else "")
