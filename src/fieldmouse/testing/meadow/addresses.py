"""Addresses of hosts, and places that determine the distance between hosts and clients.

All hosts have addresses in one private network. With several *places*, each host is in a random one, and the
last number of a client's address gives its place: 127.9.0.1 is in the first, 127.9.0.2 in the second. Agents
with different source addresses are thus near to some hosts and far from others, on one machine.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Network

from fieldmouse.errors import UsageError
from fieldmouse.testing.meadow.rng import random_words

LOOPBACK = "127.0.0.0/8"


class HostAddresses:
    """Host addresses of a network, in order; none ends in 0 or 255.

    >>> addresses = HostAddresses(LOOPBACK)
    >>> addresses[0], addresses[254], addresses[254 * 255]
    ('127.0.1.1', '127.0.2.1', '127.1.0.1')
    >>> HostAddresses("10.7.3.0/24")[0], HostAddresses("127.20.0.0/16")[0]
    ('10.7.3.1', '127.20.1.1')
    >>> len(HostAddresses("10.7.3.16/28"))
    14
    """

    def __init__(self, network: str):
        try:
            self._network = IPv4Network(network)
        except ValueError as error:
            raise UsageError(f"`{network}` is not an IPv4 network: {error}", "say `--listen 127.20.0.0/16`") from error
        if not self._network.is_private:
            raise UsageError(
                f"`{network}` is a public network, which a meadow must not pretend to be",
                f"listen on a part of `{LOOPBACK}`, or on private addresses such as `10.7.0.0/16`",
            )
        self._first, self._mask = int(self._network.network_address), int(self._network.netmask)
        size = self._network.num_addresses
        # In networks larger than a /24 the first 256 addresses stay free for other programs.
        self._rows = size // 256 - 1 if size > 256 else 1
        self._skipped = 256 if size > 256 else 0
        self._in_row = min(254, max(size - 2, 1))

    @property
    def on_loopback(self) -> bool:
        return self._network.is_loopback

    def __len__(self) -> int:
        return self._rows * self._in_row

    def __getitem__(self, index: int) -> str:
        if not 0 <= index < len(self):
            raise IndexError(index)
        row, place = divmod(index, self._in_row)
        number = self._first + self._skipped + 256 * row + place + (self._network.num_addresses > 2)
        return socket.inet_ntoa(number.to_bytes(4))

    def __contains__(self, address: str) -> bool:
        return int.from_bytes(socket.inet_aton(address)) & self._mask == self._first


def place_of_host(seed: int, number: int, places: int) -> int:
    """Place of host `number`, from 1 on."""
    return random_words(seed, "place", number)[0] % places + 1


def place_of_client(address: str, places: int) -> int:
    """Place of the client with that address.

    >>> [place_of_client(f"127.9.0.{last}", 2) for last in (1, 2, 3)]
    [1, 2, 1]
    """
    return (int(address.rpartition(".")[2]) - 1) % places + 1
