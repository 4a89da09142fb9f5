"""Header lines that a user adds to our requests, and which of them can be sent.

One grammar for settings, fetcher and whoever else adds lines to a request. It is narrower
than HTTP's: a name of letters, digits and dashes, since servers and what stands before them drop
or confuse names with other signs (`X_From` and `X-From` become one).
"""

from __future__ import annotations

from collections.abc import Mapping

from fieldmouse.errors import UsageError

OURS = frozenset(
    "host user-agent from accept accept-encoding connection content-length transfer-encoding te upgrade "
    "trailer expect range if-none-match if-modified-since".split()
)
"""What a request says of itself, whoever it is for."""

MATTERS_OF_TASTE = frozenset("from accept accept-encoding".split())
"""Those that may be said otherwise, if it is for all requests."""


HARMLESS = (
    MATTERS_OF_TASTE
    | OURS
    | frozenset(
        "accept-language accept-charset cache-control dnt pragma priority referer save-data sec-gpc "
        "upgrade-insecure-requests via".split()
    )
)
"""Headers whose values anybody may read. All others may hold a login or a token, whatever their names."""

BLANK = "(blanked)"
"""What archive and messages have in place of such a value."""


def is_secret(name: str) -> bool:
    """Whether the value of a header is for the server alone.

    >>> is_secret("Authorization"), is_secret("X-Vault"), is_secret("Accept-Language")
    (True, True, False)
    """
    return name.lower() not in HARMLESS


def blanked(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as they may be shown.

    >>> blanked({"Cookie": "id=1", "DNT": "1"})
    {'Cookie': '(blanked)', 'DNT': '1'}
    """
    return {name: BLANK if is_secret(name) else value for name, value in headers.items()}


def check_header(name: str, value: str) -> None:
    """UsageError, if this header cannot be sent.

    >>> check_header("X-From", "us")
    """
    if not (name.isascii() and name.replace("-", "").isalnum() and value.isprintable()):
        raise UsageError(  # without the value, which may be a secret
            f"`{name}` cannot be sent as a header",
            hint="a header has a name of letters, digits and dashes, and one line of text",
        )


def check_headers(headers: Mapping[str, str]) -> None:
    """UsageError, if one of these cannot be sent with every request, beside what we say of ourselves.

    >>> check_headers({"Accept-Language": "en", "accept": "*/*"})
    """
    for name, value in headers.items():
        check_header(name, value)
        if name.lower() == "user-agent":
            raise UsageError(
                f"`{name}` is no header to be added: a robot has one name, for servers and in robots.txt",
                hint="set `crawl.product` and `crawl.contact`; both stand in the User-Agent",
            )
        if name.lower() in OURS - MATTERS_OF_TASTE:
            raise UsageError(
                f"`{name}` is no header to be added: each request says for itself what it needs",
                hint="leave it out",
            )
