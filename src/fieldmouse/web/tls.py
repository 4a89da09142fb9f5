"""How far a server's certificate is trusted."""

from __future__ import annotations

import ssl
from pathlib import Path

from fieldmouse.errors import UsageError


def trust(*, verify: bool = True, ca_file: Path | None = None, protocol: str = "http/1.1") -> ssl.SSLContext:
    """The context for all our TLS connections: the system's authorities and those of `ca_file`.

    `protocol` is what servers are told that we speak; "" if they need not be.

    With `verify` off, any certificate will do; the pages are then worth what an
    honest network is worth, and no more.
    """
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"`{ca_file}` cannot be read as certificates: {error}",
                hint="give a PEM file that holds the certificates of the authorities to trust",
            ) from None
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if protocol:
        context.set_alpn_protocols([protocol])
    return context
