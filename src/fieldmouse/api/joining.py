"""`agent`: one of many that crawl together, planned with what the board says of the crawl.

Key secret, scope and settings are the crawl's: the first agent writes them onto the board, the others take
them from there. What belongs to a machine (robots, memory, disk, its addresses) each says for itself.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from fieldmouse import __version__
from fieldmouse import settings as settings_file
from fieldmouse.api import asking
from fieldmouse.api.plan import Plan, check
from fieldmouse.balancer.board.contract import Board, Charter
from fieldmouse.balancer.board.refusals import REMEDY
from fieldmouse.balancer.identity import DEFAULT_CRAWL as DEFAULT_CRAWL
from fieldmouse.balancer.identity import is_agent, read_origin
from fieldmouse.balancer.opening import charter_of, crawls_of, open_board
from fieldmouse.crawldir import CrawlDir
from fieldmouse.errors import BoardLost, BoardUnreachable, UsageError, typed
from fieldmouse.figures import listed
from fieldmouse.settings import Settings
from fieldmouse.settings.board import is_of_a_machine, is_of_a_run
from fieldmouse.settings.reading import written

BOARD_VARIABLE = "FIELDMOUSE_BOARD"
"""Where `--board` may stand instead: a password there is not shown by `ps`."""
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
    base = settings_file.load(config) if config is not None else _kept(directory) if known else Settings()
    own = asking.applied(base, words, changes)
    listed = asking.seeds_of([*own.crawl.seeds, *listed])
    charter = asyncio.run(_charter(boards, crawl, own, listed, directory, known=known, on_waiting=on_waiting))
    common = settings_file.parse(charter.settings, f"the settings of `{crawl}` on the board")
    said = {asking.SETTING_OF[word] for word, value in words.items() if value is not None} | {*changes}
    _agree(common, own, said, listed, charter)
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
    return _merged(Settings(), settings_file.load(directory / "fieldmouse.toml"), set())


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
            text = settings_file.render(own.override({"crawl.seeds": tuple(seeds)}))
            made_by = f"fieldmouse/{__version__}"
            ours = Charter(secrets.randbits(63), text, tuple(seeds), made_by)
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


def _agree(common: Settings, own: Settings, said: set[str], seeds: Sequence[str], charter: Charter) -> None:
    """Raise if what was asked for here is not what the crawl is."""
    strange = [seed for seed in seeds if seed not in charter.seeds]
    if strange:
        raise UsageError(
            f"`{strange[0]}` is no seed of this crawl, which began with {charter.seeds[0]}",
            "leave out --seed to join it, or begin another crawl with --crawl NAME",
        )
    usual = Settings()
    for section, key in _keys():
        if is_of_a_machine(section, key) or is_of_a_run(section, key) or (section, key) == ("crawl", "seeds"):
            continue
        ours, theirs = getattr(getattr(own, section), key), getattr(getattr(common, section), key)
        is_said = f"{section}.{key}" in said or ours != getattr(getattr(usual, section), key)
        if is_said and ours != theirs:
            raise UsageError(
                f"`{section}.{key}` is {written(own, section, key)} here,"
                f" and {written(common, section, key)} in the crawl that is joined",
                "leave it out to join the crawl as it is, or begin another with --crawl NAME",
            )


def _merged(common: Settings, own: Settings, said: set[str]) -> Settings:
    """The crawl's settings, with what each machine and each run says for itself."""
    merged = common
    for section, key in _keys():
        if is_of_a_machine(section, key) or (is_of_a_run(section, key) and f"{section}.{key}" in said):
            table = msgspec.structs.replace(
                getattr(merged, section), **{key: getattr(getattr(own, section), key)}
            )
            merged = msgspec.structs.replace(merged, **{section: table})
    return merged.checked()
