"""A meadow (synthetic web) in a subprocess, for experiments on real sockets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from fieldmouse.errors import FieldmouseError
from fieldmouse.lab.meadow.options import MeadowOptions


class MeadowReady(msgspec.Struct):
    """First line of output of the process, once it serves."""

    seeds: list[str]
    port: int


@contextmanager
def serving(options: MeadowOptions) -> Iterator[MeadowReady]:
    """Serve a meadow during the context. All its files are complete when the context ends."""
    text = msgspec.json.encode(options, enc_hook=str).decode()
    command = [sys.executable, "-m", "fieldmouse.lab.meadow", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise FieldmouseError("the meadow did not start", "its own words are above")
            yield msgspec.json.decode(line, type=MeadowReady)
        finally:
            process.terminate()
