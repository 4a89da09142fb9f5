"""Header lines that a user adds to our requests, and which of them can be sent.

One grammar for settings, fetcher and whoever else adds lines to a request. It is narrower
than HTTP's: a name of letters, digits and dashes, since servers and what stands before them drop
or confuse names with other signs (`X_From` and `X-From` become one).
"""

from __future__ import annotations

from collections.abc import Mapping

from fieldmouse.errors import UsageError


def check_header(name: str, value: str) -> None:
    """UsageError, if this header cannot be sent.

    >>> check_header("X-From", "us")
    """
    if not (name.isascii() and name.replace("-", "").isalnum() and value.isprintable()):
        raise UsageError(
            f"`{name}: {value!r}` cannot be sent as a header",
            hint="a header has a name of letters, digits and dashes, and one line of text",
        )


def check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        check_header(name, value)
