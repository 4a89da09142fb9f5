"""The only module that prints: data to stdout, talk to stderr.

Talk is for people and is readable without colour. With `--json` there is no talk:
one JSON value on stdout is all a program gets, errors included.
"""

from __future__ import annotations

import os
import sys

import msgspec


def say(sentence: str) -> None:
    """One line of talk."""
    print(sentence, file=sys.stderr, flush=True)


def hint(sentence: str) -> None:
    say(f"hint: {sentence}")


def data(line: str) -> None:
    """One line of data."""
    print(line)


def raw(chunk: bytes) -> None:
    """Bytes of data as they are."""
    sys.stdout.buffer.write(chunk)


def json(value: object) -> None:
    """One JSON value on one line of stdout."""
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.flush()


def error(message: str, advice: str = "", *, as_json: bool = False) -> None:
    """What happened, to which thing, and what to do next."""
    if as_json:
        json({"error": message, "hint": advice})
        return
    say(f"error: {message}")
    if advice:
        hint(advice)


def on_terminal() -> bool:
    """Whether a person watches our talk."""
    return sys.stderr.isatty()


def hang_up() -> None:
    """Stop writing to a reader who has gone, quietly also when Python flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
