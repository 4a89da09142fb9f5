"""TLS context for all connections, and readable messages for failed handshakes."""

from __future__ import annotations

import ssl
from pathlib import Path

from fieldmouse.errors import UsageError

_NAME_MISMATCHES = frozenset({62, 64})  # OpenSSL's numbers: a host's name, an address
_NAMES = "only names in its subjectAltName count"


def create_tls_context(
    *, verify: bool = True, ca_file: Path | None = None, protocol: str = "http/1.1"
) -> ssl.SSLContext:
    """Return the context for all TLS connections: the system's authorities and those of `ca_file`.

    `protocol` is announced to servers (ALPN); "" announces none. Without `verify` any certificate is
    accepted; the pages are then only as trustworthy as the network.
    """
    context = ssl.create_default_context()
    ignore_common_names(context)
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


def ignore_common_names(context: ssl.SSLContext) -> None:
    """Ignore the CN of a certificate's subject, as RFC 9110 (4.3.4) and browsers do.

    OpenSSL checks it if a certificate has no subjectAltName.
    """
    context.hostname_checks_common_name = False


def tls_error_text(error: ssl.SSLError) -> str:
    """Return why a handshake failed, in plain words."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return (error.reason or "TLS error").replace("_", " ").lower()
    why = (error.verify_message or "the certificate is not trusted").rstrip(".")
    return f"{why} ({_NAMES})" if error.verify_code in _NAME_MISMATCHES else why
