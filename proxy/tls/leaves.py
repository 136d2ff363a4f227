"""Leaf certificates and server contexts for the hosts that are intercepted, one a host, made when first asked for.

The leaves' key belongs to the process: it is made at the start, never stored, and is not the CA's. (mitmproxy's own
store signs its leaves with, and for, the CA's key pair and lets them live 199 days; a leaf's key is in use in every
handshake, the CA's should not be, so that store is not used.)

A leaf lives seven days, begins an hour ago, for clients whose clock is slow, and is replaced two days before its end.
It names its host in a critical Subject Alternative Name and has no subject (RFC 5280, 4.2.1.6; RFC 9525).
"""

import ipaddress
import os
import ssl
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from .ca import CA, key_usage, now_utc

LEAF_LIFE = timedelta(days=7)
LEAF_RENEWED = timedelta(days=2)
LEAF_BACKDATED = timedelta(hours=1)
MOST_CONTEXTS = 1000


class CAEnded(Exception):
    """The CA's own time is over: no leaf can be made that a client would take."""


class JudgedConnection(ssl.SSLObject):
    """The server's side of one connection, with the name that the client sent.

    Attributes:
        server_name: the SNI, lower case; None when the client sent none or the hello has not come.
    """

    server_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    context: ssl.SSLContext
    begins: datetime
    renewed: datetime


@final
class Leaves:
    """Makes and keeps contexts (see `addons.ports.Certificates`). The 1,000 hosts that were asked for last are kept."""

    def __init__(self, ca: CA, *, now: Callable[[], datetime] = now_utc) -> None:
        self._ca = ca
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._key_pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._made: OrderedDict[str, _Made] = OrderedDict()

    def context(self, host: str) -> ssl.SSLContext:
        """A server context whose leaf is for `host` alone: an A-label name, or an address without brackets.

        TLS 1.2 or later, HTTP/1.1 by ALPN, no session tickets and no renegotiation. A client that names another server,
        or none where `host` is a name with a dot, gets an `unrecognized_name` alert (RFC 6066, 3).

        Raises:
            CAEnded: the CA is no longer valid.
        """
        now = self._now()
        made = self._made.get(host)
        if made is None or not made.begins <= now < made.renewed:
            made = self._made[host] = self._make(host, now)
            if len(self._made) > MOST_CONTEXTS:
                self._made.popitem(last=False)
        self._made.move_to_end(host)
        return made.context

    def server_name(self, connection: ssl.SSLObject) -> str | None:
        """The name that the client of a connection of ours sent, lower case; None when it sent none."""
        return connection.server_name if isinstance(connection, JudgedConnection) else None

    def leaf(self, host: str, now: datetime) -> x509.Certificate:
        """A certificate for `host` and this process's key.

        Raises:
            CAEnded: the CA is no longer valid.
        """
        ends = min(now + LEAF_LIFE, self._ca.certificate.not_valid_after_utc)
        if ends <= now:
            raise CAEnded(f"the CA `{self._ca.path}` is at its end; start again to hear the remedy")
        issuer = self._ca.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        public = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self._ca.certificate.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - LEAF_BACKDATED)
            .not_valid_after(ends)
            .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
            .sign(self._ca.key, hashes.SHA256())
        )

    def _make(self, host: str, now: datetime) -> _Made:
        leaf = self.leaf(host, now)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        context.num_tickets = 0
        context.set_alpn_protocols(["http/1.1"])
        context.sslobject_class = JudgedConnection
        context.sni_callback = _name_check(host)
        _load(context, self._key_pem + leaf.public_bytes(serialization.Encoding.PEM))
        begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
        renewed = ends - LEAF_RENEWED if ends - now > LEAF_RENEWED else ends
        return _Made(context=context, begins=begins, renewed=renewed)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name_check(host: str) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], int | None]:
    """The callback that takes the client's server name.

    An address must not be sent (RFC 6066, 3), and Java sends no name without a dot: there a client may be silent.
    """
    unnamed = "." not in host or isinstance(_general_name(host), x509.IPAddress)

    def check(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
        name = None if name is None else name.lower()
        known = name == host or (name is None and unnamed)
        if isinstance(connection, JudgedConnection):
            connection.server_name = name
        return None if known else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    return check


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Give the context its key and certificate, which the `ssl` module reads from a file alone.

    On Linux the file is in memory and has no name; elsewhere it is owner-only and removed at once.
    """
    if sys.platform == "linux":
        descriptor = os.memfd_create("leaf", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    else:
        with tempfile.NamedTemporaryFile(prefix="grantproxy-") as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(file.name)
