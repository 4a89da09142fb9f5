"""Replay crawled pages with pywb and compare them, byte by byte, with what the archive holds.

scripts/replay              crawl a small meadow first
scripts/replay DIR          take the crawl in DIR
scripts/replay DIR --serve  leave pywb running, to look at pages in a browser
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from fieldmouse.http.decoding import decode

ROOT = Path(__file__).resolve().parent.parent
WAYBACK = ROOT / ".venv-pywb" / "bin" / "wayback"
HOW_MANY = 5


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--serve"]
    with tempfile.TemporaryDirectory(prefix="fieldmouse-replay-") as name:
        passing = Path(name)
        crawl = Path(words[0]).resolve() if words else crawl_a_meadow(passing / "atlas")
        rows = pages_of(crawl, passing)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        collection = {"index": str(crawl / "archive" / "index.cdxj"), "archive_paths": f"{crawl / 'archive'}/"}
        (passing / "config.yaml").write_text(json.dumps({"collections": {"crawl": collection}}))
        server = subprocess.Popen(
            [WAYBACK, "--port", str(port), "--bind", "127.0.0.1", "--directory", passing],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(port)
            wrong = sum(not same(port, crawl, row) for row in rows)
            if "--serve" in sys.argv:
                print(f"look at http://127.0.0.1:{port}/crawl/*/{rows[0]['url']}; Ctrl-C ends it", flush=True)
                signal.pause()
        finally:
            server.terminate()
            server.wait(20)
    print(f"{len(rows) - wrong} of {len(rows)} pages come back from pywb as they were stored")
    return 1 if wrong or not rows else 0


def fieldmouse(*words: str) -> list[str]:
    return [sys.executable, "-m", "fieldmouse", *words]


def crawl_a_meadow(home: Path) -> Path:
    meadow = subprocess.Popen(
        fieldmouse("meadow", "serve", "--hosts", "10", "--pages", "100", "--port", "0"), stdout=subprocess.PIPE
    )
    assert meadow.stdout is not None
    try:
        seed = json.loads(meadow.stdout.readline())["seeds"][0]
        subprocess.run(fieldmouse("crawl", str(home), "--seed", seed, "--allow-private", "--delay", "0s"), check=True)
    finally:
        meadow.terminate()
        meadow.wait(20)
    return home


def pages_of(crawl: Path, passing: Path) -> list[dict[str, Any]]:
    """A few pages: the first, the last, one that is a duplicate of another, and some between."""
    target = passing / "pages.jsonl"
    subprocess.run(fieldmouse("export", str(crawl), "--to", str(target)), check=True)
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    chosen = {row["url"]: row for row in rows[:: max(1, len(rows) // HOW_MANY)]}
    chosen |= {row["url"]: row for row in [row for row in rows if row["duplicate_of"]][:1]}
    return list(chosen.values())


def wait_for(port: int) -> None:
    for _ in range(300):
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("pywb does not answer")


def same(port: int, crawl: Path, row: dict[str, Any]) -> bool:
    """Whether the page that pywb shows is the one in the archive."""
    stamp = "".join(digit for digit in row["fetched_at"][:19] if digit.isdigit())
    # `id_` asks for the page as it was stored, without the banner and rewritten links.
    request = urllib.request.Request(f"http://127.0.0.1:{port}/crawl/{stamp}id_/{row['url']}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            # pywb undoes some content encodings for a client that asked for none; we undo the rest.
            shown = decode(answer.read(), answer.headers.get("Content-Encoding", "")).body
            status = answer.status
    except urllib.error.HTTPError as trouble:
        shown, status = b"", trouble.code
    kept = stored(crawl, row)
    verdict = status == row["status"] and shown == kept
    what = "same" if verdict else f"DIFFERENT (status {status})"
    print(f"{what}  {len(shown):>7} bytes  {row['url']}", flush=True)
    return verdict


def stored(crawl: Path, row: dict[str, Any]) -> bytes:
    """The decoded payload of the record, or of the one it refers to."""
    with (crawl / "archive" / row["warc"]).open("rb") as file:
        file.seek(row["offset"])
        record = next(iter(ArchiveIterator(file)))
        if record.rec_type != "revisit":
            return payload_of(record)
    return next(
        payload_of(found)
        for path in sorted((crawl / "archive").glob("*.warc.gz"))
        for found in ArchiveIterator(path.open("rb"))
        if found.rec_type == "response"
        and found.rec_headers["WARC-Target-URI"] == record.rec_headers["WARC-Refers-To-Target-URI"]
        and found.rec_headers["WARC-Date"] == record.rec_headers["WARC-Refers-To-Date"]
    )


def payload_of(record: Any) -> bytes:
    return decode(record.raw_stream.read(), record.http_headers.get_header("Content-Encoding", "")).body


if __name__ == "__main__":
    sys.exit(main())
