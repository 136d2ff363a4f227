"""Why a TLS handshake with an upstream failed, as one of a few fixed words: no text of the other side is kept.

The numbers are OpenSSL's `X509_V_ERR_*` (x509_vfy.h).
"""

import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from addons.record import TlsCause

_VERIFY: Final[Mapping[int, TlsCause]] = MappingProxyType(
    {
        2: TlsCause.UNKNOWN_CA,  # unable to get issuer certificate
        9: TlsCause.NOT_YET_VALID,
        10: TlsCause.EXPIRED,
        18: TlsCause.UNKNOWN_CA,  # self-signed certificate
        19: TlsCause.UNKNOWN_CA,  # self-signed certificate in the chain
        20: TlsCause.UNKNOWN_CA,  # unable to get local issuer certificate
        21: TlsCause.UNKNOWN_CA,  # unable to verify the first certificate
        62: TlsCause.NAME_MISMATCH,
        64: TlsCause.NAME_MISMATCH,  # of an address
    }
)
_VERSIONS: Final = frozenset({"UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE"})
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})


def cause_of(error: Exception) -> TlsCause:
    """The word for what a handshake ended with. Total: never raises."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFY.get(error.verify_code, TlsCause.CERTIFICATE)
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionError):
        return TlsCause.CLOSED
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or ""  # absent where it is none of OpenSSL
        if reason in _VERSIONS:
            return TlsCause.VERSION
        if reason in _NO_TLS:
            return TlsCause.NO_TLS
        return TlsCause.ALERT if "ALERT" in reason else TlsCause.OTHER
    return TlsCause.OTHER
