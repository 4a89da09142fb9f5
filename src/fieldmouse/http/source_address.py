"""Local address that connections are made from, on a machine with several.

It is used for servers of its address family; for others the system chooses. Errors caused by it (the
address is gone, or has no route) are errors of our network: their errno says so, and no host is blamed.
"""

from __future__ import annotations

import asyncio
import os
import socket
from errno import EADDRNOTAVAIL, EINVAL

from fieldmouse.errors import FieldmouseError

_NO_PORT_YET = getattr(socket, "IP_BIND_ADDRESS_NO_PORT", None)


class SourceAddress:
    """Connector that binds sockets to one local address."""

    def __init__(self, address: str):
        self.address = address
        self._family = _family_of(address)

    def check_is_local(self) -> None:
        """Raise `FieldmouseError` if it is not an address of this machine."""
        with socket.socket(self._family, socket.SOCK_STREAM) as sock:
            try:
                sock.bind((self.address, 0))
            except OSError as error:
                reason = error.strerror or str(error)
                raise FieldmouseError(
                    f"cannot connect from {self.address} (`network.source`): {reason.lower()}",
                    "name an address that this machine has (`ip address` lists them), or leave it out",
                ) from None

    def has_same_family(self, address: str) -> bool:
        """Tell whether a server's address is of the same family."""
        return _family_of(address) is self._family

    async def connect(self, address: str, port: int) -> socket.socket:
        """Return a connected non-blocking socket; raises `OSError`."""
        loop, sock = asyncio.get_running_loop(), socket.socket(self._family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if _NO_PORT_YET is not None:
                # The port is chosen at connect time, per server: otherwise all connections would share 28,000
                # ports, including those that ended within the last minute.
                sock.setsockopt(socket.IPPROTO_IP, _NO_PORT_YET, 1)
            sock.bind((self.address, 0))
            await loop.sock_connect(sock, (address, port))
        except OSError as error:
            sock.close()
            # From 127.0.0.1 there is no route to other machines, which Linux reports as an invalid argument.
            number = EADDRNOTAVAIL if error.errno == EINVAL else error.errno or EADDRNOTAVAIL
            raise OSError(number, os.strerror(number)) from error
        except BaseException:
            sock.close()
            raise
        return sock


def _family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
