"""A meadow as a process of its own, for experiments on real sockets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from fieldmouse.errors import FieldmouseError
from fieldmouse.lab.meadow.options import MeadowOptions


class MeadowReady(msgspec.Struct):
    """What it says when it serves."""

    seeds: list[str]
    port: int


@contextmanager
def serving(options: MeadowOptions) -> Iterator[MeadowReady]:
    """All that it writes is there when this is over."""
    told = msgspec.json.encode(options, enc_hook=str).decode()
    command = [sys.executable, "-m", "fieldmouse.lab.meadow", told]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise FieldmouseError("the meadow did not start", "its own words are above")
            yield msgspec.json.decode(line, type=MeadowReady)
        finally:
            process.terminate()
