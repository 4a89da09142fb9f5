"""Log of requests as they arrive at the synthetic web; politeness is judged from it, on the server's side."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec


class Arrival(msgspec.Struct, frozen=True):
    """One request. `busy` counts the unfinished requests to the same address."""

    t: float  # epoch seconds
    host: str  # from the Host header
    address: str
    path: str
    busy: int
    agent: str
    client: str = ""  # the client's address


class ArrivalLog:
    """Appender of arrivals to a file. It writes whole lines, so several processes may append to one file."""

    def __init__(self, path: Path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._waiting: list[Arrival] = []
        self._encode = msgspec.json.Encoder().encode

    def note(self, arrival: Arrival) -> None:
        self._waiting.append(arrival)

    def flush(self) -> None:
        if self._waiting:
            lines = b"".join([self._encode(arrival) + b"\n" for arrival in self._waiting])
            self._waiting.clear()
            while lines:
                lines = lines[os.write(self._file, lines) :]

    def close(self) -> None:
        self.flush()
        os.close(self._file)


def read_arrivals(path: Path) -> list[Arrival]:
    """Return all arrivals so far, in order of time."""
    decode = msgspec.json.Decoder(Arrival).decode
    lines = path.read_bytes().split(b"\n")[:-1]
    return sorted((decode(line) for line in lines), key=lambda arrival: arrival.t)
