"""Validation of the header lines that a user adds to requests.

One grammar for settings, fetcher and plug-ins. It is narrower than HTTP's: a name consists of letters,
digits and dashes, since servers and proxies drop or confuse other names (`X_From` and `X-From` become
one).
"""

from __future__ import annotations

from collections.abc import Mapping

from fieldmouse.errors import UsageError

OURS = frozenset(
    "host user-agent from accept accept-encoding connection content-length transfer-encoding te upgrade "
    "trailer expect range if-none-match if-modified-since".split()
)
"""Headers that every request sets by itself."""

MATTERS_OF_TASTE = frozenset("from accept accept-encoding".split())
"""Headers of these that a setting for all requests may override."""


HARMLESS = (
    MATTERS_OF_TASTE
    | OURS
    | frozenset(
        "accept-language accept-charset cache-control dnt pragma priority referer save-data sec-gpc "
        "upgrade-insecure-requests via".split()
    )
)
"""Headers whose values are public. All others may hold a login or a token, whatever their names."""

BLANK = "(blanked)"
"""Replacement for a secret value in archive and messages."""


def is_secret(name: str) -> bool:
    """Whether the value of a header must not be shown.

    >>> is_secret("Authorization"), is_secret("X-Vault"), is_secret("Accept-Language")
    (True, True, False)
    """
    return name.lower() not in HARMLESS


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with secret values replaced.

    >>> redact_headers({"Cookie": "id=1", "DNT": "1"})
    {'Cookie': '(blanked)', 'DNT': '1'}
    """
    return {name: BLANK if is_secret(name) else value for name, value in headers.items()}


def check_header(name: str, value: str) -> None:
    """Raise UsageError if this header cannot be sent.

    >>> check_header("X-From", "us")
    """
    if not (name.isascii() and name.replace("-", "").isalnum() and value.isprintable()):
        raise UsageError(  # without the value, which may be a secret
            f"`{name}` cannot be sent as a header",
            hint="a header has a name of letters, digits and dashes, and one line of text",
        )


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise UsageError if one of these cannot be added to every request.

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
