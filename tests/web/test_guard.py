"""The guard, against the standard library's idea of what is global."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.provisional import domains

from fieldmouse.web.guard import is_forbidden

v4 = st.one_of(
    st.ip_addresses(v=4),
    st.sampled_from(
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
        "192.168.0.0/16 198.18.0.0/15 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4".split()
    ).flatmap(lambda network: st.ip_addresses(network=network)),
)
v6 = st.one_of(
    st.ip_addresses(v=6),
    st.ip_addresses(network="2000::/3"),
    st.sampled_from(
        "fc00::/7 fe80::/10 ff00::/8 2001:db8::/32 ::/96 64:ff9b:1::/48 100::/64 2001::/23".split()
    ).flatmap(lambda network: st.ip_addresses(network=network)),
)
AZURE = "168.63.129.16"  # a public address that answers only inside their cloud


def in_6to4(address: IPv4Address) -> IPv6Address:
    return IPv6Address((0x2002 << 112) | (int(address) << 80))


def in_teredo(address: IPv4Address) -> IPv6Address:
    return IPv6Address((0x20010000 << 96) | (0x08080808 << 64) | (~int(address) & 0xFFFFFFFF))


def in_teredo_server(address: IPv4Address) -> IPv6Address:
    return IPv6Address((0x20010000 << 96) | (int(address) << 64) | (~0x08080808 & 0xFFFFFFFF))


def in_nat64(address: IPv4Address) -> IPv6Address:
    return IPv6Address((0x64FF9B << 96) | int(address))


def in_isatap(address: IPv4Address) -> IPv6Address:
    return IPv6Address((0x2A00145040010801 << 64) | (0x5EFE << 32) | int(address))


def mapped(address: IPv4Address) -> IPv6Address:
    return IPv6Address((0xFFFF << 32) | int(address))


@given(v4)
@example(IPv4Address("192.0.0.9"))
def test_what_is_not_global_is_forbidden(address: IPv4Address) -> None:
    if not address.is_global or address.is_multicast:
        assert is_forbidden(str(address)) is not None


@given(v4)
def test_what_is_global_may_be_visited(address: IPv4Address) -> None:
    special = str(address) == AZURE or any(
        address in ip_network(network) for network in ("192.0.0.0/24", "192.88.99.0/24")
    )
    if address.is_global and not address.is_multicast and not special:
        assert is_forbidden(str(address)) is None


@given(v6)
def test_what_is_not_global_is_forbidden_in_ipv6_too(address: IPv6Address) -> None:
    if (not address.is_global or address.is_multicast or address.is_reserved) and address.ipv4_mapped is None:
        carries = address in ip_network("64:ff9b::/96") or address in ip_network("::/96")
        assert is_forbidden(str(address)) is not None or carries


@given(st.ip_addresses(network="2600::/12"))
def test_ordinary_ipv6_may_be_visited(address: IPv6Address) -> None:
    if (int(address) >> 32) & 0xFDFFFFFF != 0x5EFE:
        assert is_forbidden(str(address)) is None


@given(
    v4, st.sampled_from([mapped, in_6to4, in_nat64, in_isatap, in_teredo, in_teredo_server]), st.booleans()
)
def test_an_address_inside_another_is_as_forbidden_as_itself(address: IPv4Address, wrap, allow: bool) -> None:  # type: ignore[no-untyped-def]
    if is_forbidden(str(address), allow) is not None:
        assert is_forbidden(str(wrap(address)), allow) is not None


@given(st.one_of(v4, v6))
def test_allowing_private_addresses_only_ever_allows_more(address: IPv4Address | IPv6Address) -> None:
    if is_forbidden(str(address), allow_private=False) is None:
        assert is_forbidden(str(address), allow_private=True) is None


@given(st.one_of(st.text(), domains()))
def test_what_is_no_address_is_forbidden(text: str) -> None:
    try:
        IPv6Address(text) if ":" in text else IPv4Address(text)
    except ValueError:
        assert is_forbidden(text) == "not an address"


@pytest.mark.parametrize(
    ("address", "why", "for_owners"),
    [
        ("127.0.0.1", "loopback", None),
        ("::1", "loopback", None),
        ("10.1.2.3", "private", None),
        ("::ffff:192.168.1.1", "private", None),
        ("100.64.0.1", "shared by a carrier's customers", None),
        ("fd12::1", "unique-local", None),
        ("fe80::1%eth0", "link-local", None),
        ("169.254.7.7", "link-local", None),
        ("169.254.169.254", "cloud metadata", "cloud metadata"),
        ("::ffff:a9fe:a9fe", "cloud metadata", "cloud metadata"),
        ("64:ff9b::169.254.169.254", "cloud metadata", "cloud metadata"),
        ("2001:0:808:808::f5ff:fffe", "private", "reserved"),
        ("fd00:ec2::254", "cloud metadata", "cloud metadata"),
        ("100.100.100.200", "cloud metadata", "cloud metadata"),
        (AZURE, "cloud metadata", "cloud metadata"),
        ("0.0.0.0", "this network", "this network"),
        ("::", "this network", "this network"),
        ("224.0.0.1", "multicast", "multicast"),
        ("ff02::1", "multicast", "multicast"),
        ("255.255.255.255", "broadcast", "broadcast"),
        ("240.0.0.1", "reserved", "reserved"),
        ("0x7f.1", "not an address", "not an address"),
        ("127.1", "not an address", "not an address"),
        ("93.184.216.34", None, None),
        ("2606:2800:220:1::1", None, None),
    ],
)
def test_the_reason_is_named(address: str, why: str | None, for_owners: str | None) -> None:
    assert is_forbidden(address) == why
    assert is_forbidden(address, allow_private=True) == for_owners
