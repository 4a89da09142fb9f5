"""Tables on disk: a snapshot of all columns and a log of the rows changed since.

The snapshot is immutable and memory-mapped; the log holds later versions of its rows. When the log has
grown as long as the snapshot, both are rewritten under the next serial. The checkpoint journal holds the
lengths and one checksum per column of the snapshot.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

from fieldmouse.errors import DamagedFile, MissingFile
from fieldmouse.refresh.column_table import Column, ColumnSpec, ColumnTable, Rows
from fieldmouse.storage.log import Log, SupersededFiles, decode_record, delete_unnamed_files, read_records

_REWRITE_AT = 1 << 20
_ROWS_AT_ONCE = 4096
_ALIGNED = 64

Tables = Mapping[str, ColumnTable]
Layout = dict[str, list[ColumnSpec]]


class ChangedRows(msgspec.Struct, frozen=True, array_like=True):
    """Record of the log: complete rows of one table."""

    table: str
    rows: bytes  # row numbers
    columns: list[bytes]


class TablesState(msgspec.Struct, frozen=True, array_like=True):
    """Checkpoint state: the files, their valid lengths, and their layout."""

    layout: Layout
    serial: int = 0
    length: int = 0  # of the log
    rows: dict[str, int] = {}  # of the snapshot, by table
    sums: list[int] = []  # of the snapshot's columns


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ChangedRows).decode


class TableFiles:
    """Writer for the files of some tables, from a known state. Opening changes nothing on disk."""

    def __init__(self, directory: Path, state: TablesState):
        self._directory, self._state = directory, state
        self._log = Log(directory / log_file(state.serial), state.length)
        self._superseded = SupersededFiles()

    def roll_back_to_checkpoint(self) -> None:
        """Truncate and delete everything written after the checkpoint."""
        kept = {snapshot_file(self._state.serial), log_file(self._state.serial)}
        for pattern in ("pages-*.columns", "pages-*.log"):
            delete_unnamed_files(self._directory, pattern, kept)
        self._log.roll_back_to_checkpoint()

    def seal(self, tables: Tables) -> tuple[TablesState, list[Path]]:
        """Write the changed rows. If the snapshot is rewritten, `tables` are mapped to the new one."""
        layout = {name: list(table.fields) for name, table in tables.items()}
        changed = {name: table.take_changed_rows() for name, table in tables.items()}
        held = sum(_logged_bytes(layout[name], rows) for name, rows in self._state.rows.items())
        coming = sum(_logged_bytes(layout[name], len(rows)) for name, rows in changed.items())
        if layout != self._state.layout or self._log.length + coming > _REWRITE_AT + held:
            self._rewrite_snapshot(tables, layout)
        else:
            for name, rows in changed.items():
                self._log_changed_rows(name, tables[name], rows)
        self._state = msgspec.structs.replace(self._state, length=self._log.flush())
        self._superseded.seal()
        paths = [self._log.path]
        if self._state.sums:
            paths.append(self._directory / snapshot_file(self._state.serial))
        return self._state, paths

    def _log_changed_rows(self, name: str, table: ColumnTable, changed: Rows) -> None:
        for start in range(0, len(changed), _ROWS_AT_ONCE):
            rows = changed[start : start + _ROWS_AT_ONCE]
            columns = [table.read_cells(field.name, rows).tobytes() for field in table.fields]
            self._log.append(_encode(ChangedRows(name, rows.astype("<u4").tobytes(), columns)))

    def _rewrite_snapshot(self, tables: Tables, layout: Layout) -> None:
        old = self._state.serial
        self._superseded.add((self._directory / log_file(old), self._directory / snapshot_file(old)))
        self._log.close()
        path = self._directory / snapshot_file(old + 1)
        with path.open("wb") as file:
            sums = [_write_column(file, table.column(f.name)) for table in tables.values() for f in table.fields]
        rows = {name: len(table) for name, table in tables.items()}
        self._state = TablesState(layout, old + 1, 0, rows, sums)
        self._log = Log(self._directory / log_file(old + 1))
        for name, held in _map_snapshot(self._directory, self._state).items():
            tables[name].replace_columns(held)

    def on_checkpoint_committed(self) -> None:
        self._superseded.on_checkpoint_committed()

    def close(self) -> None:
        self._log.close()


def read_tables(directory: Path, state: TablesState) -> dict[str, ColumnTable]:
    """Read the tables at a state; changes nothing."""
    tables = _read_snapshot(directory, state)
    path = directory / log_file(state.serial)
    for offset, record in read_records(path, length=state.length):
        change = decode_record(path, _decode, record)
        table = tables[change.table]
        rows = np.frombuffer(change.rows, "<u4").astype(np.int64)
        if len(rows) and rows[-1] >= len(table):
            table.add_rows(int(rows[-1]) + 1 - len(table))
        for field, column in zip(table.fields, change.columns, strict=True):
            values = np.frombuffer(column, field.kind)
            if len(column) != len(rows) * field.bytes_per_cell:
                raise DamagedFile(path, f"the record at byte {offset} is of other columns")
            table.write_cells(field.name, rows, values.reshape(field.shape(len(rows))))
    for table in tables.values():
        table.take_changed_rows()
    return tables


def _read_snapshot(directory: Path, state: TablesState) -> dict[str, ColumnTable]:
    if not state.sums:
        return {name: ColumnTable(fields) for name, fields in state.layout.items()}
    mapped, sums = _map_snapshot(directory, state), iter(state.sums)
    for name, held in mapped.items():
        for column in held:
            if zlib.crc32(_buffer(held[column])) != next(sums, None):
                path = directory / snapshot_file(state.serial)
                raise DamagedFile(path, f"the column `{column}` of its {name} does not match its checksum")
    return {name: ColumnTable(fields, mapped[name]) for name, fields in state.layout.items()}


def _map_snapshot(directory: Path, state: TablesState) -> dict[str, dict[str, Column]]:
    path, position = directory / snapshot_file(state.serial), 0
    mapped: dict[str, dict[str, Column]] = {}
    for name, fields in state.layout.items():
        held = mapped[name] = {}
        for field in fields:
            column = held[field.name] = _map_column(path, field.kind, position, field.shape(state.rows[name]))
            position += _padded(column.nbytes)
    return mapped


def _map_column(path: Path, kind: str, position: int, shape: tuple[int, ...]) -> Column:
    """Map a column of the file; changes stay in memory."""
    wanted = int(np.prod(shape)) * np.dtype(kind).itemsize
    try:
        size = path.stat().st_size
        if size < position + wanted:
            raise DamagedFile(path, f"{position + wanted} bytes were written and synced, {size} are there")
        if not wanted:
            return np.zeros(shape, kind)
        return np.memmap(path, kind, "c", position, shape).view(np.ndarray)
    except FileNotFoundError:
        raise MissingFile(path) from None


def _write_column(file: BinaryIO, column: Column) -> int:
    whole = _buffer(np.ascontiguousarray(column))
    file.write(whole)
    file.write(bytes(_padded(len(whole)) - len(whole)))
    return zlib.crc32(whole)


def _buffer(column: Column) -> memoryview:
    return column.data.cast("B") if column.size else memoryview(b"")


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _logged_bytes(fields: list[ColumnSpec], rows: int) -> int:
    return rows * (4 + sum(field.bytes_per_cell for field in fields))


def snapshot_file(serial: int) -> str:
    return f"pages-{serial}.columns"


def log_file(serial: int) -> str:
    return f"pages-{serial}.log"


def unused_serial(directory: Path) -> int:
    """Serial that no file uses."""
    names = (path.stem.partition("-")[2] for path in directory.glob("pages-*.*"))
    return max((int(name) + 1 for name in names if name.isdigit()), default=0)
