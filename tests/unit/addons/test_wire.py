"""What a failed handshake tells: the client's alert by its name, where there was one."""

import ssl

import pytest
import trustme

from addons.front.wire import Tls, TlsFailed


@pytest.mark.parametrize(
    ("reason", "alert"),
    [
        ("TLSV1_ALERT_UNKNOWN_CA", "unknown-ca"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "bad-certificate"),
        ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "certificate-unknown"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "protocol-version"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "certificate-required"),
        ("CALLBACK_FAILED", None),
        ("HTTP_REQUEST", None),
        ("TLS_ERROR", None),
        ("X_ALERT_" + "A" * 41, None),
        ("X_ALERT_", None),
    ],
)
def test_the_alert_of_a_reason(reason: str, alert: str | None) -> None:
    """OpenSSL names an alert by the version that brought it; the name behind that is the RFC's (RFC 8446, 6.2)."""
    assert TlsFailed(reason).alert == alert


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_that_does_not_trust_the_authority_says_so(version: ssl.TLSVersion) -> None:
    """In both versions of TLS the alert comes before the handshake is over."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA(key_type=trustme.KeyType.ECDSA).issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    trusting.minimum_version = trusting.maximum_version = version
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(inward, outward, server_hostname="localhost")
    server = Tls(context)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    server.receive(outward.read())
    inward.write(server.pending())
    with pytest.raises(ssl.SSLCertVerificationError):
        client.do_handshake()
    with pytest.raises(TlsFailed) as failed:
        server.receive(outward.read())
    assert failed.value.alert == "unknown-ca"
    assert not server.established
