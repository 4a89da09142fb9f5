"""A certificate that names its host in the subject's CN alone, as certificates did before 2000."""

from __future__ import annotations

import datetime

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def issue_by_common_name(name: str) -> tuple[bytes, trustme.LeafCert]:
    """The PEM of a new authority, and a certificate of it without subjectAltName."""
    now = datetime.datetime.now(datetime.UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def signed(subject: str, public: ec.EllipticCurvePublicKey, *, ca: bool) -> bytes:
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority")]))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(authority_key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    leaf = trustme.LeafCert(private, signed(name, key.public_key(), ca=False), [])
    return signed("an authority", authority_key.public_key(), ca=True), leaf
