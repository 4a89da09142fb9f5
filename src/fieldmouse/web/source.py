"""The address of ours that connections are made from, where a machine has several and one is asked for.

It counts for servers whose addresses are of its family; to others we connect from whatever the system
chooses. Trouble that comes of it (the address is gone, or nobody can be reached from it) is trouble of our
own network: the error says so by its number, and no host is blamed.
"""

from __future__ import annotations

import asyncio
import os
import socket
from errno import EADDRNOTAVAIL, EINVAL

from fieldmouse.errors import FieldmouseError

_NO_PORT_YET = getattr(socket, "IP_BIND_ADDRESS_NO_PORT", None)


class SourceAddress:
    """Connects from one address."""

    def __init__(self, address: str):
        self.address = address
        self._family = _family_of(address)

    def check(self) -> None:
        """Is it an address of this machine?"""
        with socket.socket(self._family, socket.SOCK_STREAM) as trial:
            try:
                trial.bind((self.address, 0))
            except OSError as error:
                why = error.strerror or str(error)
                raise FieldmouseError(
                    f"cannot connect from {self.address} (`network.source`): {why.lower()}",
                    "name an address that this machine has (`ip address` lists them), or leave it out",
                ) from None

    def serves(self, address: str) -> bool:
        """Whether a server at that address is one that we speak to from ours."""
        return _family_of(address) is self._family

    async def connect(self, address: str, port: int) -> socket.socket:
        """A connected socket that does not block; OSError if there is none to be had."""
        loop, made = asyncio.get_running_loop(), socket.socket(self._family, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            if _NO_PORT_YET is not None:
                # The port is chosen when it is known for which server: else 28,000 would be all there are,
                # those of connections that ended a minute ago included.
                made.setsockopt(socket.IPPROTO_IP, _NO_PORT_YET, 1)
            made.bind((self.address, 0))
            await loop.sock_connect(made, (address, port))
        except OSError as error:
            made.close()
            # From 127.0.0.1 no way leads out of this machine, which Linux calls an invalid argument.
            number = EADDRNOTAVAIL if error.errno == EINVAL else error.errno or EADDRNOTAVAIL
            raise OSError(number, os.strerror(number)) from error
        except BaseException:
            made.close()
            raise
        return made


def _family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
