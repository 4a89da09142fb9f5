"""Tests of the WARC writer, read back by warcio: complete records, correct digests and offsets."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker
from warcio.recordloader import ArcWarcRecord

from fieldmouse.archive import warc_writer
from fieldmouse.archive.duplicate_detection import format_digest, payload_digest
from fieldmouse.archive.warc_reader import read_members, read_record, response_in_record
from fieldmouse.archive.warc_writer import WarcWriter, cdxj_log_path
from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.http import headers as head
from fieldmouse.storage.checkpoint import ShardState
from fieldmouse.types.outcome import Response
from fieldmouse.types.request import Request
from fieldmouse.url import Url
from workers.responses import CONFIG, NOW, page, response


class Arguments:
    """Command-line arguments of `warcio check`."""

    verbose = False

    def __init__(self, *inputs: Path):
        self.inputs = [str(path) for path in inputs]


def passes(path: Path) -> bool:
    checker = Checker(Arguments(path))
    checker.process_all()
    return not checker.exit_value


def records(path: Path) -> list[tuple[ArcWarcRecord, bytes]]:
    with path.open("rb") as file:
        return [(record, record.content_stream().read()) for record in ArchiveIterator(file)]


def keep(
    archive: WarcWriter, url: str, answer: Response, earlier: tuple[str, str] | None = None, etag: str = ""
) -> int:
    digest = format_digest(payload_digest(answer.body))
    stored = archive.write_response(
        Request(Url(url), 2, "http://example.org/", etag=etag),
        answer,
        payload=answer.body,
        digest=digest,
        earlier=earlier,
    )
    return stored.cdxj_place


def state_of(archive: WarcWriter) -> ShardState:
    serial, warc, warc_length, cdxj_length = archive.file_positions
    return ShardState(1, serial, warc, warc_length, cdxj_length)


bodies = st.binary(max_size=300) | st.integers(0, 200_000).map(lambda size: bytes(range(256)) * (size // 256))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(bodies, st.booleans(), st.booleans()), max_size=6))
def test_records_read_back_equal_the_stored_ones(tmp_path_factory, answers) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("archive")
    archive = WarcWriter(folder, 0, CONFIG, ShardState())
    wires = []
    for number, (body, packed, chunked) in enumerate(answers):
        headers = {"content_encoding": "gzip"} if packed else {}
        if chunked:
            headers["transfer_encoding"] = "chunked"
        wire = gzip.compress(body) if packed else body
        wires.append(wire)
        keep(archive, f"http://example.org/{number}", response(wire, **headers))
    archive.sync()
    archive.close()
    if not answers:
        return
    (warc,) = folder.glob("*.warc.gz")
    assert passes(warc)
    found = records(warc)
    kinds = [record.rec_type for record, _ in found]
    assert kinds == ["warcinfo"] + ["response", "request", "metadata"] * len(answers)
    decoded = [body for record, body in found if record.rec_type == "response"]
    assert decoded == [body for body, _, _ in answers]
    for line in cdxj_log_path(folder, 0).read_bytes().splitlines():
        _, entry = warc_writer.parse_cdxj_line(line)
        with warc.open("rb") as file:
            file.seek(int(entry.offset))
            member = file.read(int(entry.length))
        record = next(iter(ArchiveIterator(io.BytesIO(member))))
        assert record.rec_headers["WARC-Target-URI"] == entry.url
        assert record.raw_stream.read().endswith(wires[int(entry.url.rpartition("/")[2])])
        assert record.rec_headers["WARC-Payload-Digest"] == "sha1:" + entry.digest


def test_large_compressed_body_is_stored_in_several_deflate_blocks(tmp_path: Path) -> None:
    archive = WarcWriter(tmp_path, 0, CONFIG, ShardState())
    noise = gzip.compress(b"".join(payload_digest(b"%d" % n) for n in range(20_000)))
    assert len(noise) > 3 * 65535
    keep(archive, "http://example.org/", response(noise, content_encoding="gzip"))
    archive.close()
    (warc,) = tmp_path.glob("*.warc.gz")
    assert passes(warc)
    assert gzip.compress(records(warc)[1][1], mtime=0)[10:] == noise[10:]


def test_stored_head_does_not_claim_chunked_encoding(tmp_path: Path) -> None:
    archive = WarcWriter(tmp_path, 0, CONFIG, ShardState())
    keep(archive, "http://example.org/", response(b"abc", transfer_encoding="chunked"))
    archive.close()
    (warc,) = tmp_path.glob("*.warc.gz")
    head = records(warc)[1][0].http_headers
    assert head.get_header("Transfer-Encoding") is None
    assert head.get_header("X-Crawler-Transfer-Encoding") == "chunked"
    assert head.get_header("Content-Length") == "3"


def test_revisit_record_names_the_earlier_record(tmp_path: Path) -> None:
    archive = WarcWriter(tmp_path, 0, CONFIG, ShardState())
    answer = response(b"x" * 1000)
    place = keep(archive, "http://example.org/first", answer)
    found = archive.read_cdxj_line(place)
    assert found is not None
    stamp, entry = found
    assert archive.read_cdxj_line(place + 100_000) is None
    keep(archive, "http://example.org/second", answer, earlier=(entry.url, stamp))
    archive.close()
    (warc,) = tmp_path.glob("*.warc.gz")
    assert passes(warc)
    first, second = (r.rec_headers for r, _ in records(warc) if r.rec_type in ("response", "revisit"))
    assert second["WARC-Type"] == "revisit"
    assert second["WARC-Profile"].endswith("identical-payload-digest")
    assert second["WARC-Refers-To-Target-URI"] == "http://example.org/first"
    assert second["WARC-Refers-To-Date"] == first["WARC-Date"]
    assert second["WARC-Payload-Digest"] == first["WARC-Payload-Digest"]
    lines = [warc_writer.parse_cdxj_line(line)[1] for line in cdxj_log_path(tmp_path, 0).read_bytes().splitlines()]
    assert [line.mime for line in lines] == ["text/html", "warc/revisit"]


def test_304_is_stored_as_a_not_modified_revisit(tmp_path: Path) -> None:
    archive = WarcWriter(tmp_path, 0, CONFIG, ShardState())
    keep(archive, "http://example.org/", response(b"", status=304), etag='"1"')
    archive.close()
    (warc,) = tmp_path.glob("*.warc.gz")
    assert passes(warc)
    (revisit,) = (r for r, _ in records(warc) if r.rec_type == "revisit")
    assert revisit.rec_headers["WARC-Profile"].endswith("server-not-modified")


def test_304_to_an_unconditional_request_is_not_a_revisit(tmp_path: Path) -> None:
    """There is no earlier record that it could repeat, so it is stored as a response."""
    archive = WarcWriter(tmp_path, 0, CONFIG, ShardState())
    keep(archive, "http://example.org/", response(b"", status=304))
    archive.close()
    (warc,) = tmp_path.glob("*.warc.gz")
    assert passes(warc)
    (kept,) = (r for r, _ in records(warc) if r.rec_type in ("response", "revisit"))
    assert (kept.rec_type, kept.http_headers.get_statuscode()) == ("response", "304")
    assert not [name for name, _ in kept.rec_headers.headers if name.startswith(("WARC-Refers", "WARC-Prof"))]
    (line,) = cdxj_log_path(tmp_path, 0).read_bytes().splitlines()
    assert warc_writer.parse_cdxj_line(line)[1].mime != warc_writer.REVISIT


def test_head_with_malformed_lines_is_stored_as_received_and_readable(tmp_path: Path) -> None:
    archive = WarcWriter(tmp_path, 0, CONFIG, ShardState())
    lines = (
        b"Server : x\r\nno colon\r\nTwo Words: y\r\nContent-Length: 3, 3\r\nContent-Length: 3\r\n",
        b"Content-Length:\r\n 9\r\nTransfer-Encoding:\r\nTransfer-Encoding : gzip,\r\n chunked\r\nA: b\r\n",
    )
    for number, text in enumerate(lines):
        whole = b"HTTP/1.1 200 OK\r\n" + text + b"\r\n"
        fields = head.parse_head(whole)
        keep(
            archive,
            f"http://example.org/{number}",
            msgspec.structs.replace(response(b"abc"), head=whole, headers=fields.headers),
        )
    archive.close()
    (warc,) = tmp_path.glob("*.warc.gz")
    assert passes(warc)
    stored = [(record, body) for record, body in records(warc) if record.rec_type == "response"]
    assert [body for _, body in stored] == [b"abc", b"abc"]
    first, second = (
        read_record(member.content)
        for member in read_members(warc, 0, warc.stat().st_size)
        if b"\nWARC-Type: response" in member.content
    )
    assert first.block == b"HTTP/1.1 200 OK\r\n" + lines[0] + b"\r\nabc"
    assert response_in_record(second).headers == (
        ("x-crawler-transfer-encoding", ""),
        ("x-crawler-transfer-encoding", "gzip, chunked"),
        ("a", "b"),
        ("content-length", "3"),
    )


def test_truncated_body_is_marked_in_its_record(tmp_path: Path) -> None:
    archive = WarcWriter(tmp_path, 0, CONFIG, ShardState())
    keep(archive, "http://example.org/", page(body=b"x", truncated="length").response)
    archive.close()
    (warc,) = tmp_path.glob("*.warc.gz")
    assert records(warc)[1][0].rec_headers["WARC-Truncated"] == "length"


def test_full_file_is_followed_by_a_new_one(tmp_path: Path) -> None:
    config = msgspec.structs.replace(CONFIG, warc_size=4000)
    archive = WarcWriter(tmp_path, 3, config, ShardState())
    for number in range(20):
        keep(archive, f"http://example.org/{number}", response(payload_digest(b"%d" % number) * 20, at=NOW + number))
    archive.close()
    warcs = sorted(tmp_path.glob("*.warc.gz"))
    assert len(warcs) > 2
    assert all(passes(warc) for warc in warcs)
    assert all(records(warc)[0][0].rec_headers["WARC-Filename"] == warc.name for warc in warcs)
    assert sum(record.rec_type == "response" for warc in warcs for record, _ in records(warc)) == 20


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 8), st.integers(0, 8), st.binary(max_size=50), st.sampled_from([600, 3000, 1 << 30]))
def test_rollback_keeps_exactly_the_committed_records(  # type: ignore[no-untyped-def]
    tmp_path_factory, counted: int, undone: int, torn: bytes, warc_size: int
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    config: PageProcessingConfig = msgspec.structs.replace(CONFIG, warc_size=warc_size)
    archive = WarcWriter(folder, 1, config, ShardState())
    for number in range(counted):
        keep(archive, f"http://example.org/{number}", response(b"counted%d" % number))
    archive.sync()
    state = state_of(archive)
    for number in range(undone):
        keep(archive, f"http://example.org/undone{number}", response(b"undone"))
    archive.close()
    for path in folder.iterdir():
        if path.suffix == ".cdxj" or path.name >= state.warc:  # finished files are never changed
            path.write_bytes(path.read_bytes() + torn)  # a write that a kill interrupted
    other = folder / "fieldmouse-20260101000000-00009-2.warc.gz"
    other.write_bytes(b"another shard's")

    archive = WarcWriter(folder, 1, config, state)
    keep(archive, "http://example.org/after", response(b"after"))
    archive.close()
    assert other.read_bytes() == b"another shard's"
    other.unlink()
    urls = []
    for warc in sorted(folder.glob("*.warc.gz")):
        assert passes(warc)
        urls += [r.rec_headers["WARC-Target-URI"] for r, _ in records(warc) if r.rec_type == "response"]
    expected = [f"http://example.org/{number}" for number in range(counted)] + ["http://example.org/after"]
    assert urls == expected
    lines = cdxj_log_path(folder, 1).read_bytes().splitlines()
    assert [warc_writer.parse_cdxj_line(line)[1].url for line in lines] == expected
