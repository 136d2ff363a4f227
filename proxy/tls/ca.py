"""The installation's own CA: made at first start, kept in one owner-only file, handed out without its key.

Key and certificate are one file, so that they are there together or not at all; `ca.pem` beside it is a copy of the
certificate for clients. Whatever does not fit together stops the start: a new CA made in silence would be one that no
client trusts.

The CA lives ten years: clients are told about it by hand, and its leaves live days. It may sign leaves only (path
length 0), is on P-256 because every client speaks that and it is the cheapest to sign with, and has the marks that
strict verifiers ask for: critical Basic Constraints and Key Usage, Subject and Authority Key Identifier (RFC 5280,
4.2.1).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from proxy.state import StartRefused, locked, read_private, reason, write_whole

CA_KEY = "ca-key.pem"
CA_CERTIFICATE = "ca.pem"
CA_DAYS = 3652
_BACKDATED = timedelta(hours=1)
_PUBLIC_FILE = 0o644
_WHAT = "key of the CA"


def now_utc() -> datetime:
    """The time by which certificates are judged."""
    return datetime.now(UTC)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CA:
    """The CA of one installation.

    Attributes:
        path: the certificate alone, PEM, for clients.
        certificate: what is in it.
        key: signs leaves, and nothing else.
    """

    path: Path
    certificate: x509.Certificate = field(repr=False)
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def pem(self) -> str:
        """The certificate, PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as `AA:BB:…`, the form that OpenSSL and browsers show."""
        return self.certificate.fingerprint(hashes.SHA256()).hex(":").upper()

    @property
    def name(self) -> str:
        """The certificate's common name."""
        return str(self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def load_ca(directory: Path, *, now: Callable[[], datetime] = now_utc) -> CA:
    """The CA in the state directory, made there when there is none. Processes that start at once agree on one.

    Raises:
        StartRefused: a file is missing, damaged, foreign, open to others or at its end; named, with a remedy.
    """
    key_path, path = directory / CA_KEY, directory / CA_CERTIFICATE
    with locked(directory):
        stored = read_private(key_path, _WHAT)
        if stored is None:
            if path.exists():
                raise StartRefused(
                    f"{_WHAT} `{key_path}` is missing beside `{path}`; "
                    f"restore it, or remove `{path}` to have a new CA made"
                )
            stored = _make(now())
            write_whole(key_path, stored)
        ca = _read(stored, key_path, path)
        _judge(ca, key_path, now())
        try:
            shown = path.read_bytes()
        except FileNotFoundError:
            write_whole(path, ca.pem.encode(), _PUBLIC_FILE)
        except OSError as error:
            raise StartRefused(f"CA certificate `{path}` cannot be read: {reason(error)}; make it readable") from None
        else:
            if shown != ca.pem.encode():
                raise StartRefused(
                    f"CA certificate `{path}` is not the one of `{key_path}`; remove it to have it written again"
                )
    return ca


def _make(now: datetime) -> bytes:
    """Key and certificate, PEM, of a new CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"grantproxy CA {identifier.digest[:4].hex()}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Certificates and revocation lists for a CA, signatures in the handshake for a leaf (RFC 5280, 4.2.1.3)."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _read(stored: bytes, key_path: Path, path: Path) -> CA:
    try:
        key = serialization.load_pem_private_key(stored, None)
        certificate = x509.load_pem_x509_certificate(stored)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _damaged(key_path, "holds no key and certificate that can be read") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise _damaged(key_path, "holds another key than one on P-256")
    if certificate.public_key() != key.public_key():
        raise _damaged(key_path, "holds a certificate of another key")
    return CA(path=path, certificate=certificate, key=key)


def _judge(ca: CA, key_path: Path, now: datetime) -> None:
    """Refuse a certificate that clients would refuse, or that is not one of ours."""
    try:
        extensions = ca.certificate.extensions
        limits = extensions.get_extension_for_class(x509.BasicConstraints)
        usage = extensions.get_extension_for_class(x509.KeyUsage)
        extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        ours = limits.critical and limits.value.ca and usage.value.key_cert_sign and ca.name.startswith("grantproxy CA")
        ca.certificate.verify_directly_issued_by(ca.certificate)
    except Exception:  # whatever cannot be read or verified is not what we wrote
        ours = False
    if not ours:
        raise _damaged(key_path, "holds a certificate that was not made here")
    if ca.certificate.not_valid_before_utc > now:
        raise StartRefused(f"the CA of `{key_path}` is not valid yet; set this machine's clock")
    if ca.certificate.not_valid_after_utc <= now:
        raise StartRefused(
            f"the CA of `{key_path}` ended on {ca.certificate.not_valid_after_utc:%Y-%m-%d}; move it and "
            f"`{os.fspath(ca.path)}` away to have a new one made, and hand that to the clients"
        )


def _damaged(key_path: Path, what: str) -> StartRefused:
    return StartRefused(
        f"{_WHAT} `{key_path}` {what}; restore it, or move it and `{CA_CERTIFICATE}` away to have a new CA made"
    )
