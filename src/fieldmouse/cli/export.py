"""`fieldmouse export`: pages, or rows extracted from them, as JSON lines, CSV or Parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from fieldmouse.cli import files, options, voice
from fieldmouse.cli.table import Kind, Row, Table
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.records import OutcomeRow

if TYPE_CHECKING:
    from fieldmouse.reading import ReadingRoom, ReadingRooms

CHUNK = 20_000

_PAGE_FIELDS = """
    url status fetched_at title digest depth via mime language charset size words links canonical duplicate_of
    near_duplicate_of simhash indexed warc offset seen_at found_as tries
"""
PAGE_FIELDS = tuple(_PAGE_FIELDS.split())
PAGE_KINDS: dict[str, Kind] = dict.fromkeys("status depth size words links offset tries".split(), int)
PAGE_KINDS["indexed"] = bool
FATE_FIELDS = ("kind", "reason", "detail", "target")
"""Columns only with `--all`; a stored page has none of them."""
PLACE_FIELD = "directory"
"""Column only with `--with`."""


@click.command(
    epilog="""\b
Examples:
  fieldmouse export atlas --to pages.jsonl
  fieldmouse export atlas --to pages.parquet
  fieldmouse export atlas --to - --all
  fieldmouse export atlas --to items.csv --items
  fieldmouse export agent-1 --with agent-2 --with agent-3 --to pages.jsonl"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "target",
    metavar="FILE",
    required=True,
    help="Write a .jsonl, .csv or .parquet file; - for stdout.",
)
@click.option("--all", "everything", is_flag=True, help="Also export moved, failed and refused URLs.")
@click.option("--items", is_flag=True, help="Export the rows that `plugins.extract` made from the pages.")
@options.also
@options.as_json
def command(
    directory: Path, target: str, everything: bool, items: bool, others: tuple[Path, ...], as_json: bool
) -> int:
    """Write one row per stored page of the crawl in DIRECTORY, as of its last checkpoint.

    A page fetched several times has one row, the newest. With --all every outcome has
    a row, in order of time, with its kind and reason.

    With --items the rows are those that your own code extracted: from the newest
    version of each page, or with --all from every version.

    With --with several crawls are exported as one: a page that several have stored
    has one row, the newest, and the column `directory` names its crawl.
    """
    writer = _writer_for(target)
    if as_json and target == "-":
        raise UsageError(
            "`--to -` and `--json` both write to standard output",
            "leave out `--json`: the rows are JSON lines already",
        )

    room = options.opened(directory, others).still()  # one snapshot: a table may be read twice
    what = "item" if items else "outcome" if everything else "page"
    table = _items(room, everything=everything) if items else _rows(room, everything=everything)
    if target == "-":
        with voice.data_stream() as stdout:
            writer(table, stdout)
        return 0
    count = _write(Path(target), table, writer)
    voice.say(f"wrote {voice.counted(count, what)} to `{target}`")
    if as_json:
        voice.json({"to": target, f"{what}s": count})
    return 0


def _items(room: ReadingRoom | ReadingRooms, *, everything: bool) -> Table:
    return Table(lambda: room.items(all=everything))


def _rows(room: ReadingRoom | ReadingRooms, *, everything: bool) -> Table:
    from fieldmouse.reading import ReadingRooms

    fields = (*PAGE_FIELDS, *FATE_FIELDS) if everything else PAGE_FIELDS
    if isinstance(room, ReadingRooms):
        return Table(lambda: _placed(room, fields, everything), PAGE_KINDS, (*fields, PLACE_FIELD))
    return Table(lambda: _plain_rows(room, fields, everything), PAGE_KINDS, fields)


def _plain_rows(room: ReadingRoom, fields: tuple[str, ...], everything: bool) -> Iterator[Row]:
    for row in room.rows() if everything else (page.row for page in room.pages()):
        yield _plain(row, fields)


def _placed(rooms: ReadingRooms, fields: tuple[str, ...], everything: bool) -> Iterator[Row]:
    pages = ((page.directory, page.row) for page in rooms.pages())
    for directory, row in rooms.placed_rows() if everything else pages:
        yield _plain(row, fields) | {PLACE_FIELD: str(directory)}


Writer = Callable[[Table, BinaryIO], int]


def _write(path: Path, table: Table, writer: Writer) -> int:
    with files.written(path) as file:
        return writer(table, file)


def _plain(row: OutcomeRow, fields: Iterable[str]) -> Row:
    plain = {field: getattr(row, field, None) for field in fields}
    plain["fetched_at"] = voice.when(row.at)
    plain["seen_at"] = voice.when(row.seen_at) if row.seen_at else ""
    plain["simhash"] = f"{row.simhash:016x}" if row.simhash else ""
    return plain


def _writer_for(target: str) -> Writer:
    suffix = ".jsonl" if target == "-" else Path(target).suffix.lower()
    try:
        return {".jsonl": _jsonl, ".ndjson": _jsonl, ".csv": _csv, ".parquet": _parquet}[suffix]
    except KeyError:
        raise UsageError(
            f"the name `{target}` has no known format", "end it in .jsonl, .csv or .parquet"
        ) from None


def _jsonl(table: Table, file: BinaryIO) -> int:
    count, encoder, rows = 0, msgspec.json.Encoder(), table.rows()
    while chunk := list(islice(rows, CHUNK)):
        file.write(voice.escape_json(encoder.encode_lines(chunk)))
        count += len(chunk)
    return count


def tame(cell: Any) -> Any:
    """Cell that no spreadsheet takes for a formula: a text that looks like one gets a leading apostrophe.

    >>> tame("=1+1"), tame("mice"), tame("'=1+1"), tame(-5)
    ("'=1+1", 'mice', "''=1+1", -5)
    """
    return f"'{cell}" if isinstance(cell, str) and _formula(cell) else cell


# Text that already starts with an apostrophe gets another, so that removing one always restores the text.
_formula = re.compile(r"'*(?:\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])").match


def _csv(table: Table, file: BinaryIO) -> int:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    written = csv.DictWriter(text, [tame(field) for field in table.fields])
    written.writeheader()
    count, rows = 0, table.cells()
    while chunk := list(islice(rows, CHUNK)):
        written.writerows({tame(field): tame(value) for field, value in row.items()} for row in chunk)
        count += len(chunk)
    text.detach()
    return count


def _parquet(table: Table, file: BinaryIO) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise FieldmouseError(
            "Parquet needs pyarrow, which is not installed",
            "`pip install 'fieldmouse[export]'`, or use .jsonl",
        ) from None
    kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    schema = pa.schema([(field, kinds[kind]) for field, kind in table.kinds.items()])
    count, rows = 0, table.cells()
    with pq.ParquetWriter(file, schema, compression="zstd") as written:
        while chunk := list(islice(rows, CHUNK)):
            written.write_table(pa.Table.from_pylist(chunk, schema=schema))
            count += len(chunk)
    return count
