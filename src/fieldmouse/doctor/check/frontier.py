"""Check of the frontier files of one checkpoint, which are held open while they are read.

A running crawl deletes a file soon after a checkpoint that no longer names it. So all files are opened at
once, and again if a newer checkpoint appears. Files that cannot be opened then are missing.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from fieldmouse.errors import DamagedFile
from fieldmouse.frontier.hosts.host_table import HostTableState
from fieldmouse.frontier.hosts.sites import SitesState, read_sites
from fieldmouse.frontier.queues.queue_index import read_index
from fieldmouse.frontier.queues.ready import ReadyState
from fieldmouse.frontier.queues.virtualizer import VirtualizerState, segment_file
from fieldmouse.frontier.seen.key_table import KeySum
from fieldmouse.frontier.seen.sieve import SieveState, logged_keys
from fieldmouse.frontier.seen.sorted_runs import Run
from fieldmouse.frontier.state import FrontierState, read_open_tickets, sealed_frontier
from fieldmouse.reader.snapshot import retry_until_whole
from fieldmouse.storage.checkpoint import Checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.storage.log import records
from fieldmouse.types.request import Origin, Request
from fieldmouse.url import Host, key_of

_link = msgspec.msgpack.Decoder(Request).decode
_items = msgspec.msgpack.Decoder(list[tuple[Host, bytes]]).decode
_block = msgspec.msgpack.Decoder(tuple[Host, int, list[bytes]]).decode

#: Exceptions that reading a damaged file may raise.
DAMAGE_ERRORS = (DamagedFile, OSError, ValueError, msgspec.MsgspecError)


class FrontierDamage(msgspec.Struct, frozen=True):
    """File that does not match the state, and the difference."""

    file: str
    what: str


class FrontierReport(msgspec.Struct, frozen=True):
    """Result of an inspection; the sums are valid only without injuries."""

    injuries: list[FrontierDamage]
    waiting: KeySum
    seen: KeySum


def waiting_keys(directory: Path, state: FrontierState, key_seed: int) -> Iterator[int]:
    """Yield the key of every waiting URL, without polls; raises one of `DAMAGE_ERRORS` on a damaged file."""
    online = read_open_tickets(directory, state.front).values()
    for row in chain(online, _ready_links(directory, state.ready), _queued_links(directory, state.queues)):
        if (link := _link(row)).door is not Origin.POLLED:
            yield key_of(link.url, key_seed)


def named_files(state: FrontierState) -> dict[str, int]:
    """Return every file the state names, with the number of bytes that count; -1: all."""
    files = dict.fromkeys(state.sieve.runs, -1)
    files[state.sieve.log] = state.sieve.log_bytes
    files |= {f"ready-{number}.log": -1 for number in range(state.ready.first, state.ready.last)}
    files[f"ready-{state.ready.last}.log"] = state.ready.length
    files |= {segment_file(number): -1 for number in state.queues.segments[:-1]}
    files[segment_file(state.queues.segments[-1])] = state.queues.length
    files[f"queues-{state.queues.index.serial}.log"] = state.queues.index.length
    files[f"front-{state.front.serial}.log"] = state.front.length
    files[f"hosts-{state.hosts.serial}.log"] = state.hosts.length
    if state.sites is not None:
        files[f"sites-{state.sites.serial}.log"] = state.sites.length
    return files


def inspect_frontier(directory: Path, state: FrontierState, key_seed: int) -> FrontierReport:
    """Read all files that `state` names."""
    injuries: list[FrontierDamage] = []
    waiting, seen = KeySum(), KeySum()

    def attempt(part: Callable[[], None], file: str) -> None:
        try:
            part()
        except DAMAGE_ERRORS as trouble:
            injuries.append(_injury_of(trouble, file))

    def online() -> None:
        _add_links(waiting, read_open_tickets(directory, state.front).values(), key_seed)

    attempt(lambda: _read_hosts(directory, state.hosts), f"hosts-{state.hosts.serial}.log")
    attempt(online, f"front-{state.front.serial}.log")
    attempt(
        lambda: _add_links(waiting, _ready_links(directory, state.ready), key_seed), f"ready-{state.ready.first}.log"
    )
    attempt(
        lambda: _add_links(waiting, _queued_links(directory, state.queues), key_seed),
        f"queues-{state.queues.index.serial}.log",
    )
    sites = state.sites
    if sites is not None:
        attempt(lambda: _read_sites(directory, sites), f"sites-{sites.serial}.log")
    injuries += _check_sieve(directory, state.sieve, seen)
    return FrontierReport(injuries, waiting, seen)


def _injury_of(trouble: Exception, file: str) -> FrontierDamage:
    if isinstance(trouble, DamagedFile):
        return FrontierDamage(trouble.path.name, str(trouble).partition(" is damaged: ")[2] or str(trouble))
    if isinstance(trouble, OSError):
        name = Path(trouble.filename).name if isinstance(trouble.filename, str) else file
        return FrontierDamage(name, trouble.strerror or str(trouble))
    return FrontierDamage(file, f"it cannot be understood ({trouble})")


def _add_links(total: KeySum, rows: Iterable[bytes], key_seed: int) -> None:
    for row in rows:
        if (link := _link(row)).door is not Origin.POLLED:
            total.add(key_of(link.url, key_seed))


def _read_hosts(directory: Path, state: HostTableState) -> None:
    """Read up to the noted length: behind it are promises to wait, whose end may be torn."""
    for _ in records(directory / f"hosts-{state.serial}.log", length=state.length):
        pass


def _read_sites(directory: Path, state: SitesState) -> None:
    for _ in read_sites(directory, state):
        pass


def _ready_links(directory: Path, state: ReadyState) -> Iterator[bytes]:
    start, skip, counted = state.offset, state.taken, 0
    for number in range(state.first, state.last + 1):
        path = directory / f"ready-{number}.log"
        length = state.length if number == state.last else path.stat().st_size
        if not length:
            continue
        if number == state.first and start:
            for _ in records(path, length=start):  # already consumed, but its checksums are still checked
                pass
        for _, record in records(path, start=start, length=length):
            for _, row in _items(record)[skip:]:
                counted += 1
                yield row
            skip = 0
        start = 0
    if counted != state.count:
        raise DamagedFile(directory / f"ready-{state.first}.log", f"{state.count} URLs should wait, {counted} do")


def _queued_links(directory: Path, state: VirtualizerState) -> Iterator[bytes]:
    """Yield the links in queues, segment by segment."""
    live: dict[tuple[int, int], tuple[int, int, int]] = {}
    for head, block in read_index(directory, state.index)[0].blocks():
        live[block.segment, block.offset] = (block.first, block.count, max(0, head - block.first))
    for number in state.segments:
        path = directory / segment_file(number)
        length = state.length if number == state.segments[-1] else path.stat().st_size
        if not length:
            continue
        for offset, record in records(path, length=length):
            _, first, links = _block(record)
            expected = live.pop((number, offset), None)
            if expected is not None:
                if expected[:2] != (first, len(links)):
                    raise DamagedFile(path, f"the block at byte {offset} is not the one that its queue names")
                yield from links[expected[2] :]
    if live:
        number, offset = min(live)
        raise DamagedFile(directory / segment_file(number), f"there is no block at byte {offset}")


def _check_sieve(directory: Path, state: SieveState, seen: KeySum) -> Iterator[FrontierDamage]:
    """Check runs and log by their checksums; in format 1 runs must at least be sorted."""
    try:
        for keys in logged_keys(directory, state):
            seen.add_all(keys)
    except DAMAGE_ERRORS as trouble:
        yield _injury_of(trouble, state.log)
    for name in state.runs:
        try:
            for keys in Run(directory / name, raw=state.raw):
                seen.add_all(keys)
        except DAMAGE_ERRORS as trouble:
            yield _injury_of(trouble, name)


class FrontierFiles(msgspec.Struct, frozen=True):
    """A checkpoint, and a directory from which its frontier can be read."""

    checkpoint: Checkpoint
    frontier: Path
    missing: list[str]


@contextmanager
def open_frontier_files(home: CrawlDir) -> Iterator[FrontierFiles | None]:
    """The newest checkpoint with its files; None if there is none yet."""
    with ExitStack() as held:
        held.enter_context(_many_files())
        directory = Path(held.enter_context(TemporaryDirectory(prefix="fieldmouse-")))
        serial = count()

        def hold(last: Checkpoint) -> FrontierFiles:
            place = directory / str(next(serial))
            place.mkdir()
            return FrontierFiles(last, place, _hold(home / "frontier", place, last, held))

        yield retry_until_whole(home, hold, lambda shot: not shot.missing)


def _hold(directory: Path, place: Path, last: Checkpoint, held: ExitStack) -> list[str]:
    """Open every file and create links to the open files in `place`; returns the names of missing files."""
    missing = []
    named = named_files(sealed_frontier(last))
    promises = {path.name: 0 for path in directory.glob("hosts-*.log")}
    for name, length in (promises | named).items():
        try:
            handle = os.open(directory / name, os.O_RDONLY)
        except FileNotFoundError:
            if name in named and length:  # an empty log is created on first use
                missing.append(name)
            continue
        held.callback(os.close, handle)
        (place / name).symlink_to(f"/proc/self/fd/{handle}")
    return missing


@contextmanager
def _many_files() -> Iterator[None]:
    """Raise the limit of open files, and restore it: the process may belong to the caller."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
