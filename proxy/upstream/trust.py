"""Whom an endpoint's connections trust: the system's authorities, or only the bundle that the operator names.

The context is made once and holds no setting from the environment but the place of the system's certificates.
"""

import ssl
from dataclasses import dataclass, field
from typing import Self, final

import certifi


class TrustInvalid(ValueError):
    """The bundle holds no certificate that can be read. The message says so and no more."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """A set of trusted authorities. Two with the same bundle are equal and share connections.

    Attributes:
        bundle: PEM certificates, the only ones trusted; None for the system's.
        context: verifies the certificate and its name, TLS 1.2 or later, HTTP/1.1 only.
    """

    bundle: bytes | None = field(repr=False)
    context: ssl.SSLContext = field(compare=False, repr=False)

    @classmethod
    def system(cls) -> Self:
        """The system's authorities; the ones of the `certifi` package where it has none."""
        context = _context()
        paths = ssl.get_default_verify_paths()
        if paths.cafile or paths.capath:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            context.load_verify_locations(cafile=certifi.where())
        return cls(bundle=None, context=context)

    @classmethod
    def only(cls, bundle: bytes) -> Self:
        """Only the certificates of `bundle` (PEM), each of them an anchor.

        Raises:
            TrustInvalid: there is no certificate in it, or one cannot be read.
        """
        context = _context()
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=bundle.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError):
            raise TrustInvalid("no certificate can be read; a PEM bundle is needed") from None
        return cls(bundle=bundle, context=context)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = True
    context.verify_mode = ssl.CERT_REQUIRED
    context.hostname_checks_common_name = False
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context
