"""Network options of the user: fixed addresses for names, DNS servers, and added request headers.

One grammar for settings, fetcher and plug-ins. It is narrower than HTTP's: a name consists of letters,
digits and dashes, since servers and proxies drop or confuse other names (`X_From` and `X-From` become
one).

The map is written like curl's `--resolve`: `www.example.org=127.0.0.1:8080`, `*.meadow.test=127.0.0.9`;
it may also send a name to another port. Settings, options and resolver use the same parser, so they
accept the same entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import ip_address

import msgspec

from fieldmouse.errors import UsageError

#: Headers that every request sets by itself.
OURS = frozenset(
    "host user-agent from accept accept-encoding connection content-length transfer-encoding te upgrade "
    "trailer expect range if-none-match if-modified-since".split()
)

#: Headers of these that a setting for all requests may override.
MATTERS_OF_TASTE = frozenset("from accept accept-encoding".split())


#: Headers whose values are public. All others may hold a login or a token, whatever their names.
HARMLESS = (
    MATTERS_OF_TASTE
    | OURS
    | frozenset(
        "accept-language accept-charset cache-control dnt pragma priority referer save-data sec-gpc "
        "upgrade-insecure-requests via".split()
    )
)

#: Replacement for a secret value in archive and messages.
BLANK = "(blanked)"


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
                f"`{name}` is no header to be added: each request says for itself what it needs", hint="leave it out"
            )


class Endpoint(msgspec.Struct, frozen=True):
    """Fixed address of a name. A port of None means the URL's port."""

    address: str
    port: int | None = None


class NameOverrides:
    """Map from name patterns to fixed addresses.

    An entry without a `*` takes precedence over patterns; among patterns the first match counts. Patterns
    match names only, never address literals in URLs.

    >>> pins = NameOverrides(["*.meadow.test=127.0.0.9:8000", "a.meadow.test=[::1]"])
    >>> pins.fixed_endpoint_of("b.meadow.test"), pins.fixed_endpoint_of("meadow.test")
    (Endpoint(address='127.0.0.9', port=8000), None)
    """

    def __init__(self, entries: Iterable[str] = ()):
        self._exact: dict[str, Endpoint] = {}
        self._patterns: list[tuple[str, Endpoint]] = []
        for entry in entries:
            pattern, pin = parse_name_entry(entry)
            if "*" in pattern:
                self._patterns.append((pattern, pin))
            else:
                self._exact.setdefault(pattern, pin)

    def fixed_endpoint_of(self, name: str) -> Endpoint | None:
        pin = self._exact.get(name)
        if pin is None and self._patterns and not is_address(name):
            return next((pin for pattern, pin in self._patterns if fnmatchcase(name, pattern)), None)
        return pin

    def port_for(self, name: str) -> int | None:
        """Port that this name is sent to, or None for the URL's port; used by the fetcher."""
        pin = self.fixed_endpoint_of(name)
        return None if pin is None else pin.port


@lru_cache(maxsize=65536)
def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def parse_name_entry(entry: str) -> tuple[str, Endpoint]:
    """Parse an entry of the map; UsageError if it is invalid.

    >>> parse_name_entry("*.example.org=192.0.2.7:8080")
    ('*.example.org', Endpoint(address='192.0.2.7', port=8080))
    """
    pattern, equals, target = entry.strip().partition("=")
    pattern = pattern.strip().lower().rstrip(".")
    pin = _parse_endpoint(target.strip())
    if not (equals and pattern) or pin is None:
        raise UsageError(
            f"`{entry}` does not send a name to an address",
            hint="write it as `www.example.org=192.0.2.7`, `*.example.org=192.0.2.7:8080` or `name=[::1]:80`",
        )
    return pattern, pin


def parse_nameserver(text: str) -> Endpoint:
    """Parse the address of a DNS server for c-ares; UsageError if it is invalid.

    >>> parse_nameserver("192.0.2.53"), parse_nameserver("[::1]:5353")
    (Endpoint(address='192.0.2.53', port=None), Endpoint(address='::1', port=5353))
    """
    pin = _parse_endpoint(text)
    if pin is None or "%" in pin.address:
        raise UsageError(
            f"`{text}` is not the address of a DNS server",
            hint="write it as `192.0.2.53`, `192.0.2.53:5353` or `[2001:db8::53]:5353`",
        )
    return pin


def parse_source_address(text: str) -> str:
    """Parse an address to connect from; UsageError if it is invalid.

    >>> parse_source_address("192.0.2.7")
    '192.0.2.7'
    """
    address = ip_address(text) if is_address(text) else None
    if address is None or address.is_unspecified or address.is_multicast or text == "255.255.255.255":
        raise UsageError(
            f"`{text}` is no address to connect from", hint="write it as `192.0.2.7` or `2001:db8::7`, without a port"
        )
    return text


def _parse_endpoint(target: str) -> Endpoint | None:
    """Parse `ADDRESS` or `ADDRESS:PORT`; an IPv6 address with a port is in brackets."""
    address, colon, port = target, "", ""
    if address.startswith("["):
        address, bracket, rest = address[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        if not bracket or colon not in ("", ":"):
            return None
    elif address.count(":") == 1:
        address, colon, port = address.partition(":")
    if not is_address(address) or (colon and not (port.isascii() and port.isdigit())):
        return None
    if colon and not 0 < int(port[:6]) < 65536:
        return None
    return Endpoint(address, int(port) if colon else None)
