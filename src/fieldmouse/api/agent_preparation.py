"""Plan of a cluster agent: settings of the crawl from the coordinator, merged with those of the machine.

The key secret, scope and settings belong to the crawl: the first agent writes them to the coordinator, the
others read them from there. Each machine sets its own resources (concurrency, memory, disk, addresses).
Settings that could harm a machine (code, private addresses, no certificate check, no robots.txt) are taken
from the coordinator only if the machine has the same value: `config/settings_file.py` has the rule of each
setting.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fieldmouse import __version__
from fieldmouse.api import crawl_preparation
from fieldmouse.api.crawl_preparation import CrawlPlan, check_settings
from fieldmouse.cluster.client.identity import is_agent_directory, read_original_identity
from fieldmouse.cluster.client.session import list_crawls_on, open_coordinator, read_crawl_spec
from fieldmouse.cluster.coordinator import Coordinator, CrawlSpec
from fieldmouse.cluster.decoding import MOST_SPEC
from fieldmouse.cluster.error_messages import RESTORE_HINT
from fieldmouse.config import old_spellings, settings_file
from fieldmouse.config.settings_file import SettingAuthority, Settings, authority_over, redacted_value
from fieldmouse.errors import CoordinatorDataLost, CoordinatorUnreachable, UsageError, shell_quoted
from fieldmouse.formatting import join_names
from fieldmouse.storage.directory import CrawlDir

_Report = Callable[[str], None]
_LOOK_EVERY = 0.5
#: Seconds that a new agent waits for a coordinator that does not answer: enough for a server to restart.
_NEW_PATIENCE = 5.0


def plan_agent(
    directory: Path,
    coordinators: Sequence[str],
    crawl: str,
    words: Mapping[str, object],
    changes: Mapping[str, object],
    seeds: Iterable[str] = (),
    config: Path | None = None,
    on_waiting: _Report = lambda _: None,
) -> CrawlPlan:
    """Plan a new or returning agent in `directory` for the crawl of that name.

    Without seeds it waits for the crawl to appear. A returning agent also waits for its coordinator,
    without limit; a new one gives up soon, because the URL may be wrong. `on_waiting` receives a message
    about each wait.
    """
    seeds_given = crawl_preparation.parse_seeds(seeds)
    known = (directory / "crawl.json").exists()
    if known and not is_agent_directory(directory):
        raise UsageError(
            f"the crawl in `{directory}` is not an agent of a cluster",
            f"continue it with `fieldmouse resume {shell_quoted(directory)}`, or name another directory",
        )
    ready = directory / "fieldmouse.toml"
    if config is None and not known and ready.is_file():
        config = ready
    base = (
        settings_file.load(config) if config is not None else _machine_settings_of(directory) if known else Settings()
    )
    changes = old_spellings.with_present_names(changes)
    own = crawl_preparation.apply_keywords(base, words, changes)
    seeds_given = crawl_preparation.parse_seeds([*own.crawl.seeds, *seeds_given])
    founding = own.override({"crawl.seeds": tuple(seeds_given)})
    returning = directory if known else None
    spec = asyncio.run(_find_or_create_crawl_spec(coordinators, crawl, founding, returning, on_waiting))
    common = settings_file.parse_published(spec.settings, f"the settings of `{crawl}` on the coordinator")
    given = {crawl_preparation.KEYWORD_SETTINGS[word] for word, value in words.items() if value is not None} | {
        *changes
    }
    _check_seeds(seeds_given, spec)
    for section, key in _all_setting_names():
        _check_agreed(common, own, section, key, given, crawl, on_waiting)
    settings = _merge_settings(common, own, given)
    check_settings(settings, directory)
    wanted = tuple(crawl_preparation.parse_seeds(spec.seeds))
    seed = spec.key_seed
    plan = CrawlPlan(
        directory, settings, wanted, new=not known, coordinators=tuple(coordinators), crawl=crawl, key_seed=seed
    )
    if known:
        home = CrawlDir.open(directory)
        if home.identity.key_seed != seed:
            raise UsageError(
                f"the agent in `{directory}` belongs to another crawl than `{crawl}` on this coordinator",
                "name another directory, or the crawl it belongs to with --crawl",
            )
        return plan
    CrawlDir.check_can_create(directory)
    return plan


def _machine_settings_of(directory: Path) -> Settings:
    """Settings of this machine from earlier runs, including edits of the agent's `fieldmouse.toml`."""
    kept, file = Settings(), settings_file.load(directory / "fieldmouse.toml")
    for section, key in _all_setting_names():
        if authority_over(section, key) not in (SettingAuthority.CRAWL, SettingAuthority.RUN):
            kept = _with_value(kept, section, key, _value(file, section, key))
    return kept


async def _find_or_create_crawl_spec(
    coordinators: Sequence[str], crawl: str, own: Settings, returning: Path | None, on_waiting: _Report
) -> CrawlSpec:
    """The specification of the crawl from the coordinator; if it has none and seeds are given, a new one."""
    coordinator = open_coordinator(coordinators, crawl)
    try:
        spec = await fetch_crawl_spec(coordinator, crawl, None if returning else _NEW_PATIENCE, on_waiting)
        if spec is None and returning:
            joined = read_original_identity(returning)
            if joined is not None and joined.crawl not in ("", crawl):
                raise UsageError(
                    f"the agent in `{returning}` belongs to the crawl `{joined.crawl}`, not to `{crawl}`",
                    f"name it with `--crawl {joined.crawl}`, or name another directory",
                )
            raise CoordinatorDataLost(
                f"the coordinator knows no crawl `{crawl}`, though this directory has been an agent of it", RESTORE_HINT
            )
        if spec is None and own.crawl.seeds:
            made_by = f"fieldmouse/{__version__}"
            ours = CrawlSpec(secrets.randbits(63), settings_file.render_published(own), own.crawl.seeds, made_by)
            if len(msgspec.json.encode(ours)) > MOST_SPEC:
                raise UsageError(
                    f"the seeds of this crawl take more than {MOST_SPEC >> 20} MiB",
                    "begin with some of them, on a page that links to the others",
                )
            spec = await create_crawl(coordinator, ours, crawl, on_waiting)
        if spec is None:
            there = join_names(await list_crawls_on(coordinators))
            others = f", which has {there}" if there else ""
            on_waiting(f"waiting for a crawl `{crawl}` to appear on the coordinator{others}")
        while spec is None:
            await asyncio.sleep(_LOOK_EVERY)
            spec = await fetch_crawl_spec(coordinator, crawl, None, on_waiting)
        return spec
    finally:
        await coordinator.close()


async def create_crawl(coordinator: Coordinator, ours: CrawlSpec, crawl: str, on_waiting: _Report) -> CrawlSpec:
    """Create the crawl and return the specification that counts, also if a reply was lost on the way."""
    while True:
        try:
            return await coordinator.create_crawl(ours)
        except CoordinatorUnreachable:
            spec = await fetch_crawl_spec(coordinator, crawl, _NEW_PATIENCE, on_waiting)
            if spec is not None:
                return spec


async def fetch_crawl_spec(
    coordinator: Coordinator, crawl: str, patience: float | None, on_waiting: _Report
) -> CrawlSpec | None:
    """The specification of the crawl once the coordinator answers; `patience` in seconds, or None."""
    now = asyncio.get_running_loop().time
    since, reported = now(), False
    while True:
        try:
            return await read_crawl_spec(coordinator, crawl)
        except CoordinatorUnreachable as trouble:
            if patience is not None and now() - since >= patience:
                raise
            if not reported:
                on_waiting(f"{trouble}; waiting for it")
                reported = True
        await asyncio.sleep(_LOOK_EVERY)


def _all_setting_names() -> Iterator[tuple[str, str]]:
    for section in Settings.__struct_fields__:
        for key in getattr(Settings(), section).__struct_fields__:
            yield section, key


def _value(settings: Settings, section: str, key: str) -> Any:
    return getattr(getattr(settings, section), key)


def _with_value(settings: Settings, section: str, key: str, value: object) -> Settings:
    table = msgspec.structs.replace(getattr(settings, section), **{key: value})
    return msgspec.structs.replace(settings, **{section: table})


def _check_seeds(seeds: Sequence[str], spec: CrawlSpec) -> None:
    unknown = [seed for seed in seeds if seed not in spec.seeds]
    if unknown:
        began = f", which began with {spec.seeds[0]}" if spec.seeds else ""
        raise UsageError(
            f"`{unknown[0]}` is no seed of this crawl{began}",
            "leave out --seed to join it, or begin another crawl with --crawl NAME",
        )


_DEFAULTS = Settings()


def _check_agreed(
    common: Settings, own: Settings, section: str, key: str, given: set[str], crawl: str, on_waiting: _Report
) -> None:
    """Raise if the crawl sets a value that this machine has not allowed, or contradicts one given here."""
    ours, theirs = _value(own, section, key), _value(common, section, key)
    default, name = _value(_DEFAULTS, section, key), f"{section}.{key}"
    is_given = name in given or ours != default
    match authority_over(section, key):
        case SettingAuthority.MACHINE | SettingAuthority.RUN:
            return
        case SettingAuthority.PERMIT if theirs not in (default, ours):
            raise _not_allowed_error(common, section, key, crawl)
        case SettingAuthority.PERMIT:
            return
        case SettingAuthority.AGREE if theirs != default and not (is_given or _is_our_product(section, key, theirs)):
            raise _not_allowed_error(common, section, key, crawl)
        case SettingAuthority.CODE if ":" in theirs and not is_given:
            raise _not_allowed_error(common, section, key, crawl)
        case SettingAuthority.AT_MOST if theirs > ours:
            raise _not_allowed_error(common, section, key, crawl)
        case SettingAuthority.AT_MOST if name not in given:
            return
        case SettingAuthority.LONGER:
            if name in given and _longer_duration(ours, theirs) != ours:
                on_waiting(
                    f"`{name}` is {redacted_value(common, section, key)} in this crawl, which is kept:"
                    f" {redacted_value(own, section, key)} would be shorter"
                )
            return
    if name != "crawl.seeds" and is_given and ours != theirs:
        raise UsageError(
            f"`{name}` is {redacted_value(own, section, key)} here,"
            f" and {redacted_value(common, section, key)} in the crawl that is joined",
            "leave it out to join the crawl as it is, or begin another with --crawl NAME",
        )


def _is_our_product(section: str, key: str, value: object) -> bool:
    """Whether the value names fieldmouse, in any version: robots.txt files match the name alone."""
    return (section, key) == ("crawl", "product") and str(value).partition("/")[0] == "fieldmouse"


def _not_allowed_error(common: Settings, section: str, key: str, crawl: str) -> UsageError:
    value = redacted_value(common, section, key)
    word = value[1:-1] if value.startswith('"') else value  # text is typed without quotes
    setting = f"--set {shell_quoted(f'{section}.{key}={word}')}"
    if (section, key) == ("network", "allow_private"):
        setting = f"--allow-private` (or `{setting}"
    return UsageError(
        f"the crawl `{crawl}` sets {section}.{key} = {value}; this machine has not allowed it",
        f"if you want that here, add `{setting}`" + (")" if "` (or `" in setting else ""),
    )


def _longer_duration(ours: float | None, theirs: float | None) -> float | None:
    """The longer of two durations; None stands for the value of another setting and is ignored."""
    return max((each for each in (ours, theirs) if each is not None), default=None)


def _merge_settings(common: Settings, own: Settings, given: set[str]) -> Settings:
    """The crawl's settings, with the values that the machine and the run may set."""
    merged = common
    for section, key in _all_setting_names():
        ours, theirs = _value(own, section, key), _value(common, section, key)
        is_given = f"{section}.{key}" in given
        match authority_over(section, key):
            case SettingAuthority.MACHINE:
                merged = _with_value(merged, section, key, ours)
            case SettingAuthority.RUN if is_given:
                merged = _with_value(merged, section, key, ours)
            case SettingAuthority.LONGER if is_given or ours != _value(_DEFAULTS, section, key):
                merged = _with_value(merged, section, key, _longer_duration(ours, theirs))
    # "same" means the delay of the crawl
    if merged.politeness.effective_address_delay < common.politeness.effective_address_delay:
        merged = _with_value(merged, "politeness", "address_delay", common.politeness.effective_address_delay)
    return merged.validated()
