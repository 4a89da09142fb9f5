"""A nameserver on loopback for `*.aK.meadow.test`, which can fall silent or say that it failed."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_NAME = re.compile(r"h\d+\.a(\d+)\.meadow\.test\Z")
SERVFAIL, NXDOMAIN = 2, 3


class Nameserver(threading.Thread):
    """Answers with the address of the meadow's hosts. `mood` is "well", "silent" or "failing"."""

    def __init__(self, addresses: dict[int, str]):
        super().__init__(daemon=True)
        self.mood = "well"
        self.asked = 0
        self._addresses = addresses
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def run(self) -> None:
        while True:
            try:
                question, asker = self._socket.recvfrom(4096)
            except OSError:  # closed
                return
            self.asked += 1
            if self.mood != "silent":
                self._socket.sendto(self._answer(question), asker)

    def close(self) -> None:
        self._socket.close()

    def _answer(self, question: bytes) -> bytes:
        labels, at = [], 12
        while size := question[at]:
            labels.append(question[at + 1 : at + 1 + size].decode())
            at += size + 1
        kind, end = struct.unpack(">H", question[at + 1 : at + 3])[0], at + 5
        found = _NAME.match(".".join(labels).lower())
        code, answer = 0, b""
        if self.mood == "failing":
            code = SERVFAIL
        elif found is None:
            code = NXDOMAIN
        elif kind == 1:
            answer = struct.pack(">HHHIH", 0xC00C, 1, 1, 60, 4)
            answer += socket.inet_aton(self._addresses[int(found[1])])
        head = question[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, bool(answer), 0, 0)
        return head + question[12:end] + answer


@contextmanager
def nameserver(resolve: list[str]) -> Iterator[Nameserver]:
    """For a meadow's own list of names, such as "*.a3.meadow.test=127.0.1.4:8000"."""
    addresses = {}
    for entry in resolve:
        name, _, place = entry.partition("=")
        addresses[int(name.split(".")[1][1:])] = place.rpartition(":")[0]
    server = Nameserver(addresses)
    server.start()
    try:
        yield server
    finally:
        server.close()
