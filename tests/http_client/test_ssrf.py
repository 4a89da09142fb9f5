"""Tests of the SSRF guard against the standard library's `is_global`."""

from __future__ import annotations

import asyncio
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.provisional import domains

from fieldmouse.clock import WallClock
from fieldmouse.http.dns import ForbiddenAddress, Resolver
from fieldmouse.http.ssrf import forbidden_reason
from fieldmouse.url import host_of, hostname_of, parse

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
AZURE = "168.63.129.16"  # a public address that responds only inside their cloud


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


def in_local_nat64(address: IPv4Address) -> IPv6Address:
    return IPv6Address((0x64FF9B0001 << 80) | (0x77 << 64) | int(address))


def in_siit(address: IPv4Address) -> IPv6Address:
    return IPv6Address((0xFFFF0000 << 32) | int(address))


def mapped(address: IPv4Address) -> IPv6Address:
    return IPv6Address((0xFFFF << 32) | int(address))


@given(v4)
@example(IPv4Address("192.0.0.9"))
def test_non_global_ipv4_is_forbidden(address: IPv4Address) -> None:
    if not address.is_global or address.is_multicast:
        assert forbidden_reason(str(address)) is not None


@given(v4)
def test_global_ipv4_is_allowed(address: IPv4Address) -> None:
    special = any(
        address in ip_network(network) for network in ("192.0.0.0/24", "192.88.99.0/24", AZURE, "192.80.8.124")
    )
    if address.is_global and not address.is_multicast and not special:
        assert forbidden_reason(str(address)) is None


@given(v6)
def test_non_global_ipv6_is_forbidden(address: IPv6Address) -> None:
    if (not address.is_global or address.is_multicast or address.is_reserved) and address.ipv4_mapped is None:
        carries = address in ip_network("64:ff9b::/96") or address in ip_network("::/96")
        assert forbidden_reason(str(address)) is not None or carries


@given(st.ip_addresses(network="2600::/12"))
def test_ordinary_ipv6_is_allowed(address: IPv6Address) -> None:
    if (int(address) >> 32) & 0xFDFFFFFF != 0x5EFE:
        assert forbidden_reason(str(address)) is None


def in_prefix(length: int, address: IPv4Address) -> IPv6Address:
    """Embed by figure 1 of RFC 6052 in the network of RFC 8215: behind a prefix, around the octet u."""
    bits = f"{0x64FF9B0001:048b}".ljust(length, "1")
    carried = f"{int(address):032b}"
    if length < 96:
        before = 64 - length
        bits += carried[:before] + "0" * 8 + carried[before:]
    else:
        bits = bits[:64] + "0" * 8 + bits[72:] + carried
    return IPv6Address(int(bits.ljust(128, "0"), 2))


CARRIERS = [mapped, in_siit, in_6to4, in_nat64, in_local_nat64, in_isatap, in_teredo, in_teredo_server]
CARRIERS += [partial(in_prefix, length) for length in (48, 56, 64, 96)]
METADATA_V4 = (
    "169.254.169.254 169.254.169.253 169.254.169.123 169.254.170.2 169.254.170.23 169.254.129.2 169.254.0.23 "
    "169.254.42.42 100.100.100.200 100.96.0.96 168.63.129.16 192.0.0.192"
).split()
METADATA_V6 = (
    "fd00:ec2::254 fd00:ec2::23 fd00:ec2::253 fd20:ce::254 fd00:42::42 fd00:c1::a9fe:a9fe fd00:a9fe:a9fe::1 "
    "fe80::a9fe:a9fe fd12:3456::a9fe:a9fe fe80::6464:64c8 64:ff9b:1:a9fe:a9:fe00:: 64:ff9b:1::a9fe:a9fe "
    "64:ff9b:1:a9:fe:a9fe:: 64:ff9b:1::a9:fea9:fe00:0"
).split()


def spellings(address: str) -> list[str]:
    """Return the spellings of an IPv4 address that mean the same to a browser."""
    a, b, c, d = map(int, address.split("."))
    whole = int(IPv4Address(address))
    full_width = address.translate({ord(digit): ord(digit) + 0xFEE0 for digit in "0123456789"})
    ideographic = address.replace(".", "\u3002")
    high, low = whole >> 16, whole & 0xFFFF
    return (
        f"{address} {address}. {whole} {hex(whole)} 0{whole:o} {a}.{whole & 0xFFFFFF} {a}.{b}.{c << 8 | d} "
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o} 0x{a:x}.0X{b:X}.{c}.0{d:o} {full_width} {ideographic} "
        f"%3{address[0]}{address[1:]} user:pass@{address} [::ffff:{address}] "
        f"[0:0:0:0:0:FFFF:{high:x}:{low:X}] [::{address}] [64:ff9b::{address}] [64:ff9b:1::{address}] "
        f"[2002:{high:x}:{low:x}::] [::ffff:0:{address}] [fe80::5efe:{address}] "
        f"[2a00:1450::5efe:{address}] [2a00:1450::200:5efe:{address}]"
    ).split()


@pytest.mark.parametrize("address", METADATA_V4)
def test_metadata_service_is_forbidden_with_allow_private_in_every_spelling(address: str) -> None:
    async def all_of_them() -> None:
        resolver = Resolver(clock=WallClock(), allow_private=True)
        for spelling in spellings(address):
            url = parse(f"http://{spelling}:80/latest/meta-data/")
            assert url is not None, spelling
            verdict = await resolver.lookup(hostname_of(host_of(url)))
            assert isinstance(verdict, ForbiddenAddress), (spelling, verdict)

    asyncio.run(all_of_them())


@pytest.mark.parametrize("address", METADATA_V6)
def test_ipv6_metadata_services_are_forbidden_with_allow_private(address: str) -> None:
    assert forbidden_reason(address, allow_private=True) == "cloud metadata"
    url = parse(f"http://[{IPv6Address(address).exploded}]/")
    assert url is not None
    assert forbidden_reason(hostname_of(host_of(url)), allow_private=True) == "cloud metadata"


@given(st.sampled_from(METADATA_V4), st.sampled_from(CARRIERS))
def test_metadata_services_embedded_in_ipv6_are_forbidden(address: str, carrier) -> None:  # type: ignore[no-untyped-def]
    assert forbidden_reason(str(carrier(IPv4Address(address))), allow_private=True) is not None


@given(st.sampled_from([48, 56, 64, 96]), st.ip_addresses(network="10.0.0.0/8"))
def test_other_addresses_behind_local_nat64_are_private(length: int, address: IPv4Address) -> None:
    around = str(in_prefix(length, address))
    assert forbidden_reason(around) is not None
    if length < 96:  # the bits before it are random here, and may look like any address
        assert forbidden_reason(around, allow_private=True) is None


@given(v4, st.sampled_from(CARRIERS[:8]), st.booleans())
def test_embedded_address_is_as_forbidden_as_itself(address: IPv4Address, wrap, allow: bool) -> None:  # type: ignore[no-untyped-def]
    if wrap is in_local_nat64 and int(address) & 0xFFFFFF == 0:
        return  # the zeros behind a shorter prefix
    if forbidden_reason(str(address), allow) is not None:
        assert forbidden_reason(str(wrap(address)), allow) is not None


@given(st.one_of(v4, v6))
def test_allow_private_never_forbids_more(address: IPv4Address | IPv6Address) -> None:
    if forbidden_reason(str(address), allow_private=False) is None:
        assert forbidden_reason(str(address), allow_private=True) is None


@given(st.one_of(st.text(), domains()))
def test_invalid_address_is_forbidden(text: str) -> None:
    try:
        IPv6Address(text) if ":" in text else IPv4Address(text)
    except ValueError:
        assert forbidden_reason(text) == "not an address"


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
def test_reason_is_returned(address: str, why: str | None, for_owners: str | None) -> None:
    assert forbidden_reason(address) == why
    assert forbidden_reason(address, allow_private=True) == for_owners
