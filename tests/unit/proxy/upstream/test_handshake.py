"""The word for what a handshake ended with."""

import ssl

import pytest

from addons.record import TlsCause
from proxy.upstream.handshake import cause_of


def _verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "a text that nobody keeps")
    error.verify_code = code
    return error


def _failed(reason: str | None) -> ssl.SSLError:
    error = ssl.SSLError(1, "a text that nobody keeps")
    if reason is not None:
        error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        pytest.param(_verification(20), TlsCause.UNKNOWN_CA, id="unknown issuer"),
        pytest.param(_verification(18), TlsCause.UNKNOWN_CA, id="self-signed"),
        pytest.param(_verification(19), TlsCause.UNKNOWN_CA, id="self-signed in the chain"),
        pytest.param(_verification(62), TlsCause.NAME_MISMATCH, id="name"),
        pytest.param(_verification(64), TlsCause.NAME_MISMATCH, id="address"),
        pytest.param(_verification(10), TlsCause.EXPIRED, id="expired"),
        pytest.param(_verification(9), TlsCause.NOT_YET_VALID, id="not yet valid"),
        pytest.param(_verification(26), TlsCause.CERTIFICATE, id="purpose"),
        pytest.param(_verification(0), TlsCause.CERTIFICATE, id="no code"),
        pytest.param(_failed("UNSUPPORTED_PROTOCOL"), TlsCause.VERSION, id="version"),
        pytest.param(_failed("TLSV1_ALERT_PROTOCOL_VERSION"), TlsCause.VERSION, id="version, by an alert"),
        pytest.param(_failed("WRONG_VERSION_NUMBER"), TlsCause.NO_TLS, id="plain http"),
        pytest.param(_failed("SSLV3_ALERT_HANDSHAKE_FAILURE"), TlsCause.ALERT, id="alert"),
        pytest.param(_failed("TLSV13_ALERT_CERTIFICATE_REQUIRED"), TlsCause.ALERT, id="certificate wanted"),
        pytest.param(_failed("A_NEW_ONE"), TlsCause.OTHER, id="another"),
        pytest.param(_failed(None), TlsCause.OTHER, id="no reason"),
        pytest.param(ssl.SSLEOFError(8, "eof"), TlsCause.CLOSED, id="end"),
        pytest.param(ConnectionResetError(), TlsCause.CLOSED, id="reset"),
        pytest.param(ValueError("server_hostname"), TlsCause.OTHER, id="no server name"),
    ],
)
def test_causes(error: Exception, cause: TlsCause) -> None:
    """Each way to fail has its word, and what is not known is `other`."""
    assert cause_of(error) is cause
