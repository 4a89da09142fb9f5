"""`agent`: one of many that crawl together, planned with what the board says of the crawl.

Key secret, scope and settings are the crawl's: the first agent writes them onto the board, the others take
them from there. What belongs to a machine (robots, memory, disk, its addresses) each says for itself.
What could harm a machine (code, private addresses, no certificates, no robots.txt) is taken from the board
only if the machine says the same: `settings.deciders` has who decides what.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fieldmouse import __version__
from fieldmouse import settings as settings_file
from fieldmouse.api import asking
from fieldmouse.api.plan import Plan, check
from fieldmouse.balancer.board.contract import Board, Charter
from fieldmouse.balancer.board.decoding import MOST_CHARTER
from fieldmouse.balancer.board.refusals import REMEDY
from fieldmouse.balancer.identity import DEFAULT_CRAWL as DEFAULT_CRAWL
from fieldmouse.balancer.identity import is_agent, read_origin
from fieldmouse.balancer.opening import charter_of, crawls_of, open_board
from fieldmouse.crawldir import CrawlDir
from fieldmouse.errors import BoardLost, BoardUnreachable, UsageError, typed
from fieldmouse.figures import listed
from fieldmouse.settings import Settings, spellings
from fieldmouse.settings.deciders import Decider, decider, parse_published, published
from fieldmouse.settings.reading import written

COORDINATOR_VARIABLE = "FIELDMOUSE_COORDINATOR"
"""Where `--coordinator` may stand instead: a password there is not shown by `ps`."""
_LOOK_EVERY = 0.5
_NEW_PATIENCE = 5.0
"""Seconds that a new agent waits for a board that is silent: as long as a server may take to restart."""


def plan_to_join(
    directory: Path,
    boards: Sequence[str],
    crawl: str,
    words: Mapping[str, object],
    changes: Mapping[str, object],
    seeds: Iterable[str] = (),
    config: Path | None = None,
    on_waiting: Callable[[str], None] = lambda _: None,
) -> Plan:
    """An agent in `directory`, new or one that was there before, of the crawl of that name.

    Without seeds it waits for the crawl to appear. A directory that was an agent before waits for its board,
    too, however long that is away; a new one gives up soon, since the URL may be wrong. `on_waiting` is
    told what we wait for.
    """
    listed = asking.seeds_of(seeds)
    known = (directory / "crawl.json").exists()
    if known and not is_agent(directory):
        raise UsageError(
            f"the crawl in `{directory}` is one of its own, and no agent of a network",
            f"continue it with `fieldmouse resume {typed(directory)}`, or name another directory",
        )
    ready = directory / "fieldmouse.toml"
    if config is None and not known and ready.is_file():
        config = ready
    base = settings_file.load(config) if config is not None else _kept(directory) if known else Settings()
    changes = spellings.renamed(changes)
    own = asking.applied(base, words, changes)
    listed = asking.seeds_of([*own.crawl.seeds, *listed])
    charter = asyncio.run(_charter(boards, crawl, own, listed, directory, known=known, on_waiting=on_waiting))
    common = parse_published(charter.settings, f"the settings of `{crawl}` on the board")
    said = {asking.SETTING_OF[word] for word, value in words.items() if value is not None} | {*changes}
    _check_seeds(listed, charter)
    for section, key in _keys():
        _check_agreed(common, own, section, key, said, crawl, on_waiting)
    settings = _merged(common, own, said)
    check(settings, directory)
    wanted = tuple(asking.seeds_of(charter.seeds))
    plan = Plan(
        directory,
        settings,
        wanted,
        new=not known,
        key_seed=charter.key_seed,
        boards=tuple(boards),
        crawl=crawl,
    )
    if known:
        home = CrawlDir.open(directory)
        if home.identity.key_seed != charter.key_seed:
            raise UsageError(
                f"the agent in `{directory}` belongs to another crawl than `{crawl}` on this board",
                "name another directory, or the crawl it belongs to with --crawl",
            )
        return plan
    CrawlDir.check_vacant(directory)
    return plan


def _kept(directory: Path) -> Settings:
    """What this machine said for itself before, or was written into the agent's `fieldmouse.toml` since."""
    kept, file = Settings(), settings_file.load(directory / "fieldmouse.toml")
    for section, key in _keys():
        if decider(section, key) not in (Decider.CRAWL, Decider.RUN):
            kept = _with(kept, section, key, _value(file, section, key))
    return kept


async def _charter(
    boards: Sequence[str], crawl: str, own: Settings, seeds: Sequence[str], directory: Path, *, known: bool,
    on_waiting: Callable[[str], None],
) -> Charter:  # fmt: skip
    """What the crawl is: as it stands on the board, or, with seeds and if there is none, as we make it."""
    board = open_board(boards, crawl)
    try:
        charter = await answered(board, crawl, None if known else _NEW_PATIENCE, on_waiting)
        if charter is None and known:
            joined = read_origin(directory)
            if joined is not None and joined.crawl not in ("", crawl):
                raise UsageError(
                    f"the agent in `{directory}` belongs to the crawl `{joined.crawl}`, not to `{crawl}`",
                    f"name it with `--crawl {joined.crawl}`, or name another directory",
                )
            raise BoardLost(
                f"the board knows no crawl `{crawl}`, though this directory has been an agent of it",
                REMEDY,
            )
        if charter is None and seeds:
            text = published(own.override({"crawl.seeds": tuple(seeds)}))
            made_by = f"fieldmouse/{__version__}"
            ours = Charter(secrets.randbits(63), text, tuple(seeds), made_by)
            if len(msgspec.json.encode(ours)) > MOST_CHARTER:
                raise UsageError(
                    f"the seeds of this crawl take more than {MOST_CHARTER >> 20} MiB",
                    "begin with some of them, on a page that links to the others",
                )
            charter = await founded(board, ours, crawl, on_waiting)
        if charter is None:
            there = listed(await crawls_of(boards))
            others = f", which has {there}" if there else ""
            on_waiting(f"waiting for a crawl `{crawl}` to appear on the board{others}")
        while charter is None:
            await asyncio.sleep(_LOOK_EVERY)
            charter = await answered(board, crawl, None, on_waiting)
        return charter
    finally:
        await board.close()


async def founded(board: Board, ours: Charter, crawl: str, on_waiting: Callable[[str], None]) -> Charter:
    """The charter that counts, also if the answer to who wrote it was lost on the way."""
    while True:
        try:
            return await board.found(ours)
        except BoardUnreachable:
            known = await answered(board, crawl, _NEW_PATIENCE, on_waiting)
            if known is not None:
                return known


async def answered(
    board: Board, crawl: str, patience: float | None, on_waiting: Callable[[str], None]
) -> Charter | None:
    """What the board says the crawl is, when it answers; None is patient for ever."""
    now = asyncio.get_running_loop().time
    since, told = now(), False
    while True:
        try:
            return await charter_of(board, crawl)
        except BoardUnreachable as trouble:
            if patience is not None and now() - since >= patience:
                raise
            if not told:
                on_waiting(f"{trouble}; waiting for it")
                told = True
        await asyncio.sleep(_LOOK_EVERY)


def _keys() -> Iterator[tuple[str, str]]:
    for section in Settings.__struct_fields__:
        for key in getattr(Settings(), section).__struct_fields__:
            yield section, key


def _value(settings: Settings, section: str, key: str) -> Any:
    return getattr(getattr(settings, section), key)


def _with(settings: Settings, section: str, key: str, value: object) -> Settings:
    table = msgspec.structs.replace(getattr(settings, section), **{key: value})
    return msgspec.structs.replace(settings, **{section: table})


def _check_seeds(seeds: Sequence[str], charter: Charter) -> None:
    strange = [seed for seed in seeds if seed not in charter.seeds]
    if strange:
        began = f", which began with {charter.seeds[0]}" if charter.seeds else ""
        raise UsageError(
            f"`{strange[0]}` is no seed of this crawl{began}",
            "leave out --seed to join it, or begin another crawl with --crawl NAME",
        )


_USUAL = Settings()


def _check_agreed(
    common: Settings, own: Settings, section: str, key: str, said: set[str], crawl: str,
    on_waiting: Callable[[str], None],
) -> None:  # fmt: skip
    """Raise if the crawl sets what this machine has not allowed, or something else was asked for here."""
    ours, theirs = _value(own, section, key), _value(common, section, key)
    usual, name = _value(_USUAL, section, key), f"{section}.{key}"
    is_said = name in said or ours != usual
    match decider(section, key):
        case Decider.MACHINE | Decider.RUN:
            return
        case Decider.PERMIT if theirs not in (usual, ours):
            raise _not_allowed(common, section, key, crawl)
        case Decider.PERMIT:
            return
        case Decider.AGREE if theirs != usual and not is_said and not _is_our_product(section, key, theirs):
            raise _not_allowed(common, section, key, crawl)
        case Decider.CODE if ":" in theirs and not is_said:
            raise _not_allowed(common, section, key, crawl)
        case Decider.AT_MOST if theirs > ours:
            raise _not_allowed(common, section, key, crawl)
        case Decider.AT_MOST if name not in said:
            return
        case Decider.LONGER:
            if name in said and _longer(ours, theirs) != ours:
                on_waiting(
                    f"`{name}` is {written(common, section, key)} in this crawl, which is kept:"
                    f" {written(own, section, key)} would be shorter"
                )
            return
    if name != "crawl.seeds" and is_said and ours != theirs:
        raise UsageError(
            f"`{name}` is {written(own, section, key)} here,"
            f" and {written(common, section, key)} in the crawl that is joined",
            "leave it out to join the crawl as it is, or begin another with --crawl NAME",
        )


def _is_our_product(section: str, key: str, value: object) -> bool:
    """Whether it names fieldmouse, of another version perhaps: robots.txt files speak of the name alone."""
    return (section, key) == ("crawl", "product") and str(value).partition("/")[0] == "fieldmouse"


def _not_allowed(common: Settings, section: str, key: str, crawl: str) -> UsageError:
    value = written(common, section, key)
    word = value[1:-1] if value.startswith('"') else value  # a text is typed without quotes
    setting = f"--set {typed(f'{section}.{key}={word}')}"
    if (section, key) == ("network", "allow_private"):
        setting = f"--allow-private` (or `{setting}"
    return UsageError(
        f"the crawl `{crawl}` sets {section}.{key} = {value}; this machine has not allowed it",
        f"if you want that here, add `{setting}`" + (")" if "` (or `" in setting else ""),
    )


def _longer(ours: float | None, theirs: float | None) -> float | None:
    """The longer of two durations; None is the same as another setting, and no duration of its own."""
    return max((each for each in (ours, theirs) if each is not None), default=None)


def _merged(common: Settings, own: Settings, said: set[str]) -> Settings:
    """The crawl's settings, with what each machine and each run says for itself."""
    merged = common
    for section, key in _keys():
        ours, theirs = _value(own, section, key), _value(common, section, key)
        is_said = f"{section}.{key}" in said
        match decider(section, key):
            case Decider.MACHINE:
                merged = _with(merged, section, key, ours)
            case Decider.RUN if is_said:
                merged = _with(merged, section, key, ours)
            case Decider.LONGER if is_said or ours != _value(_USUAL, section, key):
                merged = _with(merged, section, key, _longer(ours, theirs))
    if merged.politeness.per_address < common.politeness.per_address:  # "same" as the delay there
        merged = _with(merged, "politeness", "address_delay", common.politeness.per_address)
    return merged.checked()
