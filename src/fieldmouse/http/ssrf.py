"""SSRF guard: addresses that a crawler must not connect to.

A page can name any host, and any name can resolve to an address of the local network. So the *resolved*
address is checked, and that address is then connected to. IPv6 addresses that contain an IPv4 address
(mapped, 6to4, NAT64, Teredo, ISATAP) are as forbidden as the address inside. Where the position of the
IPv4 address is unknown, every position that yields a metadata service counts.

There are two kinds. Some ranges are private: loopback, home and office networks, documentation and
benchmark ranges. Their owner may crawl them with `allow_private`. Others are always forbidden: metadata
services that hand out credentials, multicast, and unassigned addresses.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_PRIVATE = {
    "loopback": "127.0.0.0/8 ::1/128",
    "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 64:ff9b:1::/48",
    "shared by a carrier's customers": "100.64.0.0/10",
    "link-local": "169.254.0.0/16 fe80::/10",
    "unique-local": "fc00::/7",
    "site-local": "fec0::/10",
    "for benchmarks": "198.18.0.0/15 2001:2::/48",
    "for documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
}
METADATA = "cloud metadata"
_FORBIDDEN = {
    "this network": "0.0.0.0/8 ::/128",
    "reserved": "192.0.0.0/24 192.88.99.0/24 240.0.0.0/4 2001::/23",
    "multicast": "224.0.0.0/4 ff00::/8",
    "broadcast": "255.255.255.255/32",
    METADATA: (
        "169.254.169.0/24 169.254.170.0/24 169.254.128.0/22 169.254.0.23/32 169.254.42.42/32 "
        "100.100.100.200/32 100.96.0.96/32 168.63.129.16/32 192.0.0.192/32 192.80.8.124/32 "
        "fd00:ec2::/32 fd20:ce::254/128 fd00:42::42/128 fd00:c1::a9fe:a9fe/128 fd00:a9fe:a9fe::/48"
    ),
}
# Amazon, Google, OpenStack and most others; Amazon's containers; Azure's App Service; Tencent; Scaleway;
# Alibaba; Volcengine; Azure; Oracle; Equinix; and in IPv6 Amazon, Google, Scaleway, Oracle and Linode.


def forbidden_reason(address: str, allow_private: bool = False) -> str | None:
    """Return why `address` must not be connected to, or None if it may.

    >>> forbidden_reason("127.0.0.1"), forbidden_reason("127.0.0.1", allow_private=True)
    ('loopback', None)
    >>> forbidden_reason("::ffff:169.254.169.254", allow_private=True)
    'cloud metadata'
    >>> forbidden_reason("93.184.216.34") is None
    True
    """
    private, never = _private_and_forbidden_reasons(address)
    return never if allow_private else private or never


@lru_cache(maxsize=65536)
def _private_and_forbidden_reasons(text: str) -> tuple[str | None, str | None]:
    """Return why an address is private, and why it is always forbidden."""
    try:
        address = ip_address(text.partition("%")[0])  # the zone names a network interface, not a destination
    except ValueError:
        return None, "not an address"
    if isinstance(address, IPv4Address):
        verdicts = [_verdict_on(int(address), _V4)]
    else:
        carried = _embedded_ipv4(address)
        verdicts = [_verdict_on(int(inner), _V4) for inner in carried] + [_verdict_on(int(address), _V6)]
        verdicts += _possibly_embedded_verdicts(int(address))
        if int(address) >> 125 != 1 and not carried:  # only 2000::/3 is assigned
            verdicts.append(("reserved", _verdict_on(int(address), _V6)[1]))
    private = next((why for why, private in verdicts if why and private), None)
    never = next((why for why, private in verdicts if why and not private), None)
    return private, never


def _embedded_ipv4(address: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that a packet to this IPv6 address may reach."""
    number = int(address)
    low = IPv4Address(number & 0xFFFFFFFF)
    high_96 = number >> 32
    if high_96 in (0xFFFF, 0xFFFF0000, 0x64FF9B << 64) or (high_96 == 0 and number > 1):
        return [low]  # mapped, translated (SIIT), NAT64, and the deprecated compatible form
    if number >> 112 == 0x2002:
        return [IPv4Address(number >> 80 & 0xFFFFFFFF)]
    if number >> 96 == 0x20010000:
        return [IPv4Address(number >> 64 & 0xFFFFFFFF), IPv4Address(~number & 0xFFFFFFFF)]
    if high_96 & 0xFDFFFFFF == 0x5EFE:
        return [low]
    return []


def _possibly_embedded_verdicts(number: int) -> list[_Verdict]:
    """Return verdicts on IPv4 addresses that may be embedded in an address of a local network.

    The owner of a part of 64:ff9b:1::/48 (RFC 8215) chooses one of the positions of RFC 6052; and clouds
    often put the address of their metadata service at the end of a local address.
    """
    if number >> 80 == 0x64FF9B0001:
        places = [
            number & 0xFFFFFFFF,  # behind a prefix of 96 bits
            number >> 24 & 0xFFFFFFFF,  # of 64; bits 64 to 71 are always skipped
            (number >> 64 & 0xFF) << 24 | number >> 32 & 0xFFFFFF,  # of 56
            (number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF,  # of 48
        ]
        last, is_private = _verdict_on(places[0], _V4)
        if last is not None and not is_private and places[0] & 0xFFFFFF:  # not zeros behind a shorter prefix
            return [(last, False)]
    elif number >> 121 == 0xFC >> 1 or number >> 119 == 0xFE80 >> 7:  # fc00::/7, fe80::/9
        places = [number & 0xFFFFFFFF]
    else:
        return []
    return [verdict for place in places if (verdict := _verdict_on(place, _V4))[0] == METADATA]


_Verdict = tuple[str | None, bool]
_Places = tuple[list[int], list[tuple[int, str, bool]]]


def _range_table(version: int) -> _Places:
    """Return ranges in order of their first address; of nested ranges the wider one first."""
    ranges = [
        (int(network[0]), -int(network[-1]), why, private)
        for places, private in ((_PRIVATE, True), (_FORBIDDEN, False))
        for why, names in places.items()
        for network in map(ip_network, names.split())
        if network.version == version
    ]
    ranges.sort()
    return [first for first, *_ in ranges], [(-last, why, private) for _, last, why, private in ranges]


_V4, _V6 = _range_table(4), _range_table(6)


def _verdict_on(number: int, places: _Places) -> _Verdict:
    firsts, rest = places
    at = bisect_right(firsts, number) - 1
    while at >= 0:
        last, why, private = rest[at]
        if number <= last:
            return why, private
        at -= 1
    return None, False
