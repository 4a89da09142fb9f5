"""Panics of tantivy as errors that its callers expect.

tantivy checks little of what it maps into memory. Over a damaged file its Rust code panics, and pyo3 raises
that as a `PanicException`, which is no `Exception`, so that nobody catches it by accident. Here it becomes a
kind of `ValueError`, as tantivy raises for everything else that goes wrong. Every use of an index is wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fieldmouse.errors import IndexDamaged


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """`IndexDamaged` instead of a panic; Ctrl-C and the end of the process pass as they are."""
    try:
        yield
    except BaseException as trouble:
        if not _is_panic(trouble):
            raise
        raise IndexDamaged(f"a file of it is damaged ({' '.join(str(trouble).split())})") from trouble


def _is_panic(trouble: BaseException) -> bool:
    """By its name: every extension module that is made with pyo3 has a class of its own."""
    kind = type(trouble)
    return kind.__name__ == "PanicException" and kind.__module__ == "pyo3_runtime"
