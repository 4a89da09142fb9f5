"""CDXJ index lines that locate records in the archive.

One line per stored response: the reversed URL (SURT), the time, and the place of the
record. Each shard appends its lines to its own log as it writes. At the end of a
crawl all logs are sorted, in bounded memory, into one `index.cdxj` for replay tools.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from fieldmouse.http.headers import essence
from fieldmouse.storage.fsync import atomic_write
from fieldmouse.types.outcome import Response

CHUNK = 16 << 20  # bytes sorted at a time
REVISIT = "warc/revisit"
"""Used instead of a MIME type if the record only refers to an earlier one."""

_WWW = re.compile(r"www\d*\.")
_SESSION = re.compile(
    r"(?i)^(.*?)(?:(?:jsessionid=[0-9a-z]{32})|(?:phpsessid=[0-9a-z]{32})|(?:sid=[0-9a-z]{32})"
    r"|(?:aspsessionid[a-z]{8}=[a-z]{24})|(?:cfid=[^&]+&cftoken=[^&]+))(?:&(.*))?$"
)
_SAFE = re.compile(r"https?://[a-z0-9.-]+(?::\d+)?(?:/[a-z0-9._~-]+)+/?\Z").match


def cdxj_mime(answer: Response) -> str:
    """MIME type for the line of a response: that of its first Content-Type, as other tools write it."""
    return essence(answer.header("content-type")) or "unk"


def surt(url: str) -> str:
    """SURT (sort-friendly form) of a normalized http(s) URL, as replay tools look it up.

    >>> surt("https://www.example.org:8443/A/?b=2&a=1")
    'org,example:8443)/a?a=1&b=2'
    """
    slash = url.index("/", 8)
    authority = url[url.index("/") + 2 : slash]
    path, mark, query = url[slash:].partition("?")
    if authority.startswith("["):
        name, _, port = authority[1:].partition("]")
        port = port[1:]
    else:
        name, _, port = authority.partition(":")
        match = _WWW.match(name)
        if match and "." in name[match.end() :]:
            name = name[match.end() :]
        name = ",".join(reversed(name.split(".")))
    if _SAFE(url) is None:
        path = _normalize_path(path.lower())
        query = "&".join(sorted(_without_session(query).lower().split("&"))) if mark else ""
    if len(path) > 1 and path.endswith("/"):
        path = path[:-1]
    return f"{name}{':' + port if port else ''}){path}{'?' + query if query else ''}"


def _normalize_path(path: str) -> str:
    path = re.sub(r";jsessionid=[0-9a-z]{32}", "", path)
    path = path.replace("%7e", "~")
    return re.sub(r"//+", "/", path)


def _without_session(query: str) -> str:
    match = _SESSION.match(query)
    return query if match is None else f"{match[1]}{match[2] or ''}".rstrip("&")


class CdxjEntry(msgspec.Struct, frozen=True):
    """JSON part of a line; all values are text, as pywb writes them."""

    url: str
    mime: str
    status: str
    digest: str
    length: str
    offset: str
    filename: str


_encode = msgspec.json.Encoder().encode


def format_line(
    url: str, stamp: str, mime: str, status: int, digest: str, offset: int, length: int, filename: str
) -> bytes:
    """One line, ending in a newline. `stamp` is the record's date as 14 digits."""
    entry = CdxjEntry(url, mime, str(status), digest, str(length), str(offset), filename)
    return b"%b %b %b\n" % (surt(url).encode(), stamp.encode(), _encode(entry))


def parse_line(raw: bytes) -> tuple[str, CdxjEntry]:
    """Timestamp and entry of one line."""
    _, stamp, rest = raw.split(b" ", 2)
    return stamp.decode(), msgspec.json.decode(rest, type=CdxjEntry)


def merge_logs(logs: Iterable[Path], target: Path, chunk: int = CHUNK) -> int:
    """Sort the lines of all `logs` into `target` and return their number. Memory stays near `chunk` bytes."""
    runs: list[Path] = []
    try:
        for log in logs:
            with log.open("rb") as file:
                while lines := file.readlines(chunk):
                    lines.sort()
                    runs.append(target.with_name(f"{target.name}.run-{len(runs)}"))
                    with runs[-1].open("wb") as out:
                        out.writelines(lines)
                    del lines
        count = 0
        with atomic_write(target, ".fresh") as out:
            for merged_line in heapq.merge(*(_lines(run) for run in runs)):
                out.write(merged_line)
                count += 1
    finally:
        remove_leftovers(target)
    return count


def remove_leftovers(target: Path) -> None:
    """Delete the temporary files of an interrupted `merge_logs`."""
    for name in ("run-*", "fresh"):
        for path in list(target.parent.glob(f"{target.name}.{name}")):
            path.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file
