"""`fieldmouse export`: pages, or rows extracted from them, as JSON lines, CSV or Parquet.

Pages always have the same columns. Rows extracted by user code may have any, so the columns are found by
reading all rows first: a column with values of one type has that type, all other columns are text, with
lists and tables written as JSON.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from fieldmouse.cli import console, options, output_file
from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.types.outcome import OutcomeRow

if TYPE_CHECKING:
    from fieldmouse.reader.crawl_reader import CrawlReader, MultiCrawlReader


Row = dict[str, Any]
ColumnType = type[int] | type[float] | type[bool] | type[str]

_LARGEST = 1 << 63
_encode = msgspec.json.Encoder().encode


class Table:
    """Rows that can be read several times; without `fields`, the columns are found by reading all rows."""

    def __init__(
        self,
        rows: Callable[[], Iterator[Row]],
        kinds: Mapping[str, ColumnType] | None = None,
        fields: tuple[str, ...] | None = None,
    ):
        self.rows, self._given, self._fields = rows, kinds or {}, fields

    @cached_property
    def column_types(self) -> dict[str, ColumnType]:
        """The kind of each column, in the order of columns."""
        if self._fields is not None:
            return {field: self._given.get(field, str) for field in self._fields}
        kinds_of: dict[str, set[ColumnType]] = {}
        for row in self.rows():
            for field, value in row.items():
                kinds_of.setdefault(field, set())
                if value is not None:
                    kinds_of[field].add(_kind_of(value))
        return {field: _common_type(kinds) for field, kinds in kinds_of.items()}

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self.column_types)

    def typed_rows(self) -> Iterator[Row]:
        """Rows with each value converted to the type of its column."""
        kinds = self.column_types
        for row in self.rows():
            yield {field: _cell(row.get(field), kind) for field, kind in kinds.items()}


def _kind_of(value: object) -> ColumnType:
    if isinstance(value, int) and not isinstance(value, bool) and not -_LARGEST <= value < _LARGEST:
        return str
    kind = type(value)
    return kind if kind in (int, float, bool, str) else str


def _common_type(kinds: set[ColumnType]) -> ColumnType:
    """Type that can hold values of all these types.

    >>> _common_type({int, float}), _common_type({int, str}), _common_type({bool})
    (<class 'float'>, <class 'str'>, <class 'bool'>)
    """
    if len(kinds) == 1:
        return next(iter(kinds))
    return float if kinds == {int, float} else str


def _cell(value: object, kind: ColumnType) -> object:
    if value is None or type(value) is kind:
        return value
    if kind is str and isinstance(value, str):
        return str.__str__(value)  # a member of a string enum is text already
    if kind is float and type(value) is int:
        return float(value)
    return _encode(value).decode() if kind is str else value


CHUNK = 20_000

_PAGE_FIELDS = """
    url status fetched_at title digest depth via mime language charset size words links canonical duplicate_of
    near_duplicate_of simhash indexed warc offset seen_at found_as tries
"""
PAGE_FIELDS = tuple(_PAGE_FIELDS.split())
PAGE_KINDS: dict[str, ColumnType] = dict.fromkeys("status depth size words links offset tries".split(), int)
PAGE_KINDS["indexed"] = bool
#: Columns only with `--all`; a stored page has none of them.
OUTCOME_FIELDS = ("kind", "reason", "detail", "target")
#: Column only with `--with`.
DIRECTORY_FIELD = "directory"


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
    "--to", "target", metavar="FILE", required=True, help="Write a .jsonl, .csv or .parquet file; - for stdout."
)
@click.option("--all", "everything", is_flag=True, help="Also export moved, failed and refused URLs.")
@click.option("--items", is_flag=True, help="Export the rows that `plugins.extract` made from the pages.")
@options.with_option
@options.json_option
def command(
    directory: Path, target: str, everything: bool, items: bool, others: tuple[Path, ...], as_json: bool
) -> None:
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
            "`--to -` and `--json` both write to standard output", "leave out `--json`: the rows are JSON lines already"
        )

    room = options.open_reader(directory, others).pinned()  # one snapshot: a table may be read twice
    what = "item" if items else "outcome" if everything else "page"
    table = _items(room, everything=everything) if items else _rows(room, everything=everything)
    if target == "-":
        with console.stdout_for_data() as stdout:
            writer(table, stdout)
        return
    count = _write_file(Path(target), table, writer)
    console.message(f"wrote {console.format_count(count, what)} to `{target}`")
    if as_json:
        console.print_json({"to": target, f"{what}s": count})


def _items(room: CrawlReader | MultiCrawlReader, *, everything: bool) -> Table:
    return Table(lambda: room.items(all=everything))


def _rows(room: CrawlReader | MultiCrawlReader, *, everything: bool) -> Table:
    from fieldmouse.reader.crawl_reader import MultiCrawlReader

    fields = (*PAGE_FIELDS, *OUTCOME_FIELDS) if everything else PAGE_FIELDS
    if isinstance(room, MultiCrawlReader):
        return Table(lambda: _rows_with_directory(room, fields, everything), PAGE_KINDS, (*fields, DIRECTORY_FIELD))
    return Table(lambda: _plain_rows(room, fields, everything), PAGE_KINDS, fields)


def _plain_rows(room: CrawlReader, fields: tuple[str, ...], everything: bool) -> Iterator[Row]:
    for row in room.rows() if everything else (page.row for page in room.pages()):
        yield _row_of_outcome(row, fields)


def _rows_with_directory(rooms: MultiCrawlReader, fields: tuple[str, ...], everything: bool) -> Iterator[Row]:
    pages = ((page.directory, page.row) for page in rooms.pages())
    for directory, row in rooms.rows_with_directory() if everything else pages:
        yield _row_of_outcome(row, fields) | {DIRECTORY_FIELD: str(directory)}


Writer = Callable[[Table, BinaryIO], int]


def _write_file(path: Path, table: Table, writer: Writer) -> int:
    with output_file.open_output(path) as file:
        return writer(table, file)


def _row_of_outcome(row: OutcomeRow, fields: Iterable[str]) -> Row:
    plain = {field: getattr(row, field, None) for field in fields}
    plain["fetched_at"] = console.format_time(row.at)
    plain["seen_at"] = console.format_time(row.seen_at) if row.seen_at else ""
    plain["simhash"] = f"{row.simhash:016x}" if row.simhash else ""
    return plain


def _writer_for(target: str) -> Writer:
    suffix = ".jsonl" if target == "-" else Path(target).suffix.lower()
    try:
        return {".jsonl": _jsonl, ".ndjson": _jsonl, ".csv": _csv, ".parquet": _parquet}[suffix]
    except KeyError:
        raise UsageError(f"the name `{target}` has no known format", "end it in .jsonl, .csv or .parquet") from None


def _jsonl(table: Table, file: BinaryIO) -> int:
    count, encoder, rows = 0, msgspec.json.Encoder(), table.rows()
    while chunk := list(islice(rows, CHUNK)):
        file.write(console.escape_json(encoder.encode_lines(chunk)))
        count += len(chunk)
    return count


def escape_formula(cell: Any) -> Any:
    """Cell that no spreadsheet takes for a formula: a text that looks like one gets a leading apostrophe.

    >>> escape_formula("=1+1"), escape_formula("mice"), escape_formula("'=1+1"), escape_formula(-5)
    ("'=1+1", 'mice', "''=1+1", -5)
    """
    return f"'{cell}" if isinstance(cell, str) and _formula(cell) else cell


# Text that already starts with an apostrophe gets another, so that removing one always restores the text.
_formula = re.compile(r"'*(?:\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])").match


def _csv(table: Table, file: BinaryIO) -> int:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    written = csv.DictWriter(text, [escape_formula(field) for field in table.fields])
    written.writeheader()
    count, rows = 0, table.typed_rows()
    while chunk := list(islice(rows, CHUNK)):
        written.writerows(
            {escape_formula(field): escape_formula(value) for field, value in row.items()} for row in chunk
        )
        count += len(chunk)
    text.detach()
    return count


def _parquet(table: Table, file: BinaryIO) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise FieldmouseError(
            "Parquet needs pyarrow, which is not installed", "`pip install 'fieldmouse[export]'`, or use .jsonl"
        ) from None
    kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    schema = pa.schema([(field, kinds[kind]) for field, kind in table.column_types.items()])
    count, rows = 0, table.typed_rows()
    with pq.ParquetWriter(file, schema, compression="zstd") as written:
        while chunk := list(islice(rows, CHUNK)):
            written.write_table(pa.Table.from_pylist(chunk, schema=schema))
            count += len(chunk)
    return count
