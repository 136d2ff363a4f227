"""Trust: whom a connection believes."""

import ssl

import pytest
import trustme

from proxy.upstream import Trust, TrustInvalid


def test_same_bundle_is_the_same_trust(authority: trustme.CA) -> None:
    """Two endpoints with one bundle share connections; with two bundles they do not."""
    bundle = authority.cert_pem.bytes()
    assert Trust.only(bundle) == Trust.only(bundle)
    assert Trust.only(bundle) != Trust.only(trustme.CA().cert_pem.bytes())
    assert Trust.only(bundle) != Trust.system()
    assert Trust.system() == Trust.system()


@pytest.mark.parametrize(
    "bundle",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"nonsense", id="no PEM"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", id="no certificate in it"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
def test_unreadable_bundle(bundle: bytes) -> None:
    """A bundle without a certificate is refused when it is read, not when it is used."""
    with pytest.raises(TrustInvalid) as caught:
        Trust.only(bundle)
    assert caught.value.__cause__ is None


def test_only_the_bundle(authority: trustme.CA) -> None:
    """A bundle replaces the system's authorities."""
    context = Trust.only(authority.cert_pem.bytes()).context
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("kind", ["system", "only"])
def test_context(kind: str, authority: trustme.CA) -> None:
    """Certificate and name are always verified, TLS is at least 1.2, nothing is logged."""
    context = (Trust.system() if kind == "system" else Trust.only(authority.cert_pem.bytes())).context
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert not context.hostname_checks_common_name
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.keylog_filename is None


def test_system_without_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without certificates of its own gets those of a package, not none."""
    paths = ssl.get_default_verify_paths()._replace(cafile=None, capath=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    assert len(Trust.system().context.get_ca_certs()) > 50
