"""A request survives the way through the coordinator, whatever is left out of its row."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.cluster.decoding import DamagedValue, decode_row, encode_row
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import FrontierEntry, Request, RequestKind
from fieldmouse.url import Host, Url

HOST = Host("http://a.test")
paths = st.text("ab/", max_size=5).map(lambda path: "/" + path)
links = st.builds(
    Request,
    url=paths.map(lambda path: Url(HOST + path)),
    depth=st.integers(0, 9),
    via=st.one_of(st.just(""), paths.map(lambda path: HOST + path), st.just("http://b.test/x")),
    kind=st.sampled_from(RequestKind),
    seen_at=st.sampled_from([0.0, 1.7e9]),
    redirects=st.integers(0, 2),
    tries=st.integers(0, 2),
    not_before=st.sampled_from([0.0, 1000.0]),
    etag=st.sampled_from(["", '"x"']),
    trail=st.sampled_from([(), ("http://b.test/",)]),
    drops=st.integers(0, 1),
    door=st.sampled_from(FrontierEntry),
    simhash=st.sampled_from([0, 2**63]),
    memory=st.sampled_from([b"", b"noise"]),
    why=st.sampled_from(OutcomeReason),
)


@given(links)
def test_a_row_is_decoded_to_the_same_request(link: Request) -> None:
    assert decode_row(encode_row(link, HOST, 100.0), HOST, 100.0) == link


@given(links)
def test_a_row_with_all_fields_is_decoded(link: Request) -> None:
    """Older agents wrote them; some may still be stored."""
    path = Url(link.url[len(HOST) :])
    wait = max(0.0, link.not_before - 100.0)
    whole = msgspec.msgpack.encode(msgspec.structs.replace(link, url=path, not_before=wait))
    assert decode_row(whole, HOST, 100.0) == link


def test_default_fields_take_no_space() -> None:
    plain = Request(Url(HOST + "/x"), depth=2, via=HOST + "/", seen_at=1.7e9)
    assert len(msgspec.msgpack.decode(encode_row(plain, HOST, 0.0))) == 5
    later = msgspec.structs.replace(plain, tries=1, not_before=50.0)
    assert len(msgspec.msgpack.decode(encode_row(later, HOST, 60.0))) == 7, "the wait is over"
    assert len(msgspec.msgpack.decode(encode_row(later, HOST, 40.0))) == 8


@given(st.binary(max_size=20))
def test_any_bytes_give_a_request_or_a_readable_error(row: bytes) -> None:
    with contextlib.suppress(DamagedValue):
        assert decode_row(row, HOST, 0.0).url.startswith(HOST)


def test_a_row_of_another_version_is_reported_as_such() -> None:
    with pytest.raises(DamagedValue, match="row: "):
        decode_row(msgspec.msgpack.encode({"url": "/a"}), HOST, 0.0)
