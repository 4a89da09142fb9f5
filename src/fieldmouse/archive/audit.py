"""Consistency check of WARC files against CDXJ logs, shard by shard.

A shard writes a record and its line together, so records and lines must agree in
order. `audit_heads` reads only the head of each record that a line names. `audit_all_bytes` reads
every byte and determines which of the two is wrong where they differ.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fieldmouse.archive import cdxj
from fieldmouse.archive.warc_reader import (
    INDEXED_TYPES,
    MEMBER_MAGIC,
    TornMember,
    cdxj_line,
    digest_matches,
    find_next_member,
    read_members,
    read_record,
    read_record_head,
    warc_files,
)
from fieldmouse.archive.warc_writer import cdxj_log_path
from fieldmouse.storage.shard_state import ShardState

_DECODE_ERRORS = (ValueError, KeyError, UnicodeDecodeError, msgspec.MsgspecError)


class WarcDamage(msgspec.Struct, frozen=True):
    """Unreadable place in a WARC file; offset -1 if the whole file is missing."""

    file: str
    offset: int
    what: str


class ShardAudit(msgspec.Struct):
    """Damage found in one shard's archive."""

    records: int = 0  # intact responses
    size: int = 0  # committed WARC bytes
    wounds: list[WarcDamage] = []
    cdxj: str = ""  # description of the damage of the CDXJ log, "" if none
    unreadable: list[str] = []  # URLs of damaged records, as far as the log names them

    @property
    def intact(self) -> bool:
        return not self.wounds and not self.cdxj


def expected_warc_files(
    directory: Path, shard: int, state: ShardState
) -> Iterator[tuple[str, Path | None, int]]:
    """Name, path and committed length of each WARC file that the shard should have, oldest first."""
    paths = warc_files(directory, shard)
    for serial in range(1, state.serial + 1):
        path = paths.get(serial)
        if serial == state.serial:
            path = directory / state.warc
            yield state.warc, path if path.is_file() else None, state.warc_length
        elif path is None:
            yield f"the WARC file number {serial:05} of shard {shard}", None, 0
        else:
            yield path.name, path, path.stat().st_size


def log_lines(path: Path, length: int) -> Iterator[bytes]:
    """Lines of a CDXJ log up to `length`; the last one may be cut off if the log is damaged."""
    with path.open("rb") as file:
        left = length
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            yield line


def audit_heads(directory: Path, shard: int, state: ShardState) -> ShardAudit:
    """Check the lines and the heads of the records; on any inconsistency run `audit_all_bytes`."""
    report = ShardAudit()
    handles: dict[str, int] = {}
    last: dict[str, int] = {}  # by file: offset of the record that the newest line names
    try:
        for name, path, length in expected_warc_files(directory, shard, state):
            if path is None or path.stat().st_size < length:
                return audit_all_bytes(directory, shard, state)
            handles[name] = os.open(path, os.O_RDONLY)
            report.size += length
        log = cdxj_log_path(directory, shard)
        if state.cdxj_length and (not log.is_file() or log.stat().st_size < state.cdxj_length):
            return audit_all_bytes(directory, shard, state)
        for line in log_lines(log, state.cdxj_length):
            try:
                _, entry = cdxj.parse_line(line)
                handle, offset, size = handles[entry.filename], int(entry.offset), int(entry.length)
                same = cdxj_line(read_record_head(handle, offset, size), offset, size, entry.filename) == line
                follows = os.pread(handle, len(MEMBER_MAGIC), offset + size) == MEMBER_MAGIC
            except (*_DECODE_ERRORS, TornMember):
                return audit_all_bytes(directory, shard, state)
            if not same or not follows or offset < last.get(entry.filename, 0):
                return audit_all_bytes(directory, shard, state)
            last[entry.filename] = offset
            report.records += 1
        for name, path, length in expected_warc_files(directory, shard, state):
            assert path is not None
            try:
                if length:
                    next(read_members(path, 0, length))
                for _ in read_members(path, last.get(name, 0), length):
                    pass
            except TornMember:
                return audit_all_bytes(directory, shard, state)
        return report
    except OSError as trouble:
        report.wounds.append(
            WarcDamage(Path(str(trouble.filename)).name, -1, trouble.strerror or str(trouble))
        )
        return report
    finally:
        for handle in handles.values():
            os.close(handle)


def audit_all_bytes(directory: Path, shard: int, state: ShardState) -> ShardAudit:
    """Read every member of every file with checksum and digest, and compare the log's lines with them."""
    report = ShardAudit(wounds=[], unreadable=[])
    log = cdxj_log_path(directory, shard)
    size = log.stat().st_size if log.is_file() else 0
    lines: Iterator[bytes] = iter(())
    if not log.is_file() and state.cdxj_length:
        report.cdxj = "it is missing"
    elif size < state.cdxj_length:
        report.cdxj = f"{state.cdxj_length} bytes were written and synced, {size} are there"
    elif state.cdxj_length:
        lines = log_lines(log, state.cdxj_length)
    for offset, expected, name in intact_responses(directory, shard, state, report):
        if report.cdxj:
            continue
        line = next(lines, b"")
        while line != expected:
            place = _place_of(line)
            if place is None or place == (name, offset) or not report.wounds:
                report.cdxj = f"the line of the record at byte {offset} of `{name}` does not match it"
                break
            report.unreadable.append(_url_of(line))
            line = next(lines, b"")
    if not report.cdxj:
        for line in lines:
            if report.wounds and _place_of(line) is not None:
                report.unreadable.append(_url_of(line))
            else:
                report.cdxj = "it has lines without a record"
                break
    return report


def intact_responses(
    directory: Path, shard: int, state: ShardState, report: ShardAudit | None = None
) -> Iterator[tuple[int, bytes, str]]:
    """Offset, CDXJ line and file of each intact response; damage is added to `report`."""
    report = report or ShardAudit()
    for name, path, length in expected_warc_files(directory, shard, state):
        if path is None:
            report.wounds.append(WarcDamage(name, -1, "it is missing"))
            continue
        size = path.stat().st_size
        end = min(size, length)
        report.size += length
        at: int | None = 0
        while at is not None and at < end:
            try:
                for member in read_members(path, at, end):
                    at = member.offset
                    record = read_record(member.content)
                    if not digest_matches(record):
                        raise ValueError("the payload does not match its digest")
                    if record.kind in INDEXED_TYPES:
                        line = cdxj_line(record, member.offset, member.length, name)
                        report.records += 1
                        yield member.offset, line, name
                    at = member.offset + member.length
            except TornMember as torn:
                report.wounds.append(WarcDamage(name, torn.offset, torn.reason))
                at = find_next_member(path, torn.offset + 1, end)
            except _DECODE_ERRORS as wrong:
                report.wounds.append(WarcDamage(name, at, str(wrong)))
                at = find_next_member(path, at + 1, end)
        if size < length:
            report.wounds.append(
                WarcDamage(name, size, f"{length} bytes were written and synced, {size} are there")
            )


def _place_of(line: bytes) -> tuple[str, int] | None:
    try:
        _, entry = cdxj.parse_line(line)
        return entry.filename, int(entry.offset)
    except _DECODE_ERRORS:
        return None


def _url_of(line: bytes) -> str:
    return cdxj.parse_line(line)[1].url
