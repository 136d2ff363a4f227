"""The CA: made once, owner-only, what strict verifiers ask for, and refused by name when it is not as it was made."""

import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from proxy.state import StartRefused, write_whole
from proxy.tls.ca import CA_DAYS, load_ca


def test_the_ca_is_made_at_the_first_start(tmp_path: Path) -> None:
    """The CA is made once; its key is owner-only, and `ca.pem` holds the certificate without it."""
    ca = load_ca(tmp_path)
    assert ca.path == tmp_path / "ca.pem"
    assert stat.S_IMODE((tmp_path / "ca-key.pem").stat().st_mode) == 0o600
    assert ca.path.read_text() == ca.pem
    assert "PRIVATE KEY" not in ca.pem
    again = load_ca(tmp_path)
    assert again.certificate == ca.certificate
    assert again.key.private_numbers() == ca.key.private_numbers()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "ca-key.pem", "ca.pem"]


def test_the_ca_has_what_strict_verifiers_ask_for(tmp_path: Path) -> None:
    """P-256, critical Basic Constraints with path length 0, critical key usage, SKI, AKI, ten years, its own name."""
    certificate = load_ca(tmp_path).certificate
    get = certificate.extensions.get_extension_for_class
    assert get(x509.BasicConstraints).critical
    assert get(x509.BasicConstraints).value == x509.BasicConstraints(ca=True, path_length=0)
    usage = get(x509.KeyUsage)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.crl_sign, usage.value.digital_signature) == (True, True, False)
    assert get(x509.AuthorityKeyIdentifier).value.key_identifier == get(x509.SubjectKeyIdentifier).value.digest
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert 0 < certificate.serial_number < 1 << 159
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert life == timedelta(days=CA_DAYS, hours=1)
    assert certificate.subject == certificate.issuer


def test_each_installation_has_its_own_ca(tmp_path: Path) -> None:
    """Two installations have two keys, and names that tell them apart."""
    first, second = (load_ca(_directory(tmp_path / name)) for name in "ab")
    assert first.name != second.name
    assert first.name.startswith("grantproxy CA ")
    assert first.fingerprint != second.fingerprint


def test_the_fingerprint_is_openssls(tmp_path: Path) -> None:
    """The fingerprint has the form that other programs show."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    ca = load_ca(tmp_path)
    shown = subprocess.run(
        ["openssl", "x509", "-in", ca.path, "-noout", "-fingerprint", "-sha256"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert shown.strip().endswith("=" + ca.fingerprint)


def test_no_text_shows_the_key(tmp_path: Path) -> None:
    """The key stands in no repr."""
    ca = load_ca(tmp_path)
    assert repr(ca) == f"CA(path={ca.path!r})"


def _directory(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificate(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, *, name: str, ca: bool) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject).issuer_name(subject).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )  # fmt: skip


def _other_key(directory: Path) -> None:
    path = directory / "ca-key.pem"
    mine = path.read_bytes()
    write_whole(path, _pem(ec.generate_private_key(ec.SECP256R1())) + mine[mine.index(b"-----BEGIN CERT") :])


def _write(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, name: str, ca: bool) -> Callable[[Path], None]:
    return lambda directory: write_whole(directory / "ca-key.pem", _pem(key) + _certificate(key, name=name, ca=ca))


def _cut(directory: Path) -> None:
    write_whole(directory / "ca-key.pem", (directory / "ca-key.pem").read_bytes()[:100])


def _empty(directory: Path) -> None:
    write_whole(directory / "ca-key.pem", b"")


def _no_certificate(directory: Path) -> None:
    write_whole(directory / "ca-key.pem", _pem(ec.generate_private_key(ec.SECP256R1())))


def _linked(directory: Path) -> None:
    (directory / "ca-key.pem").rename(directory / "moved")
    (directory / "ca-key.pem").symlink_to(directory / "moved")


def _unreadable_copy(directory: Path) -> None:
    (directory / "ca.pem").unlink()
    (directory / "ca.pem").mkdir()


_P256, _P384 = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP384R1())
_RSA = rsa.generate_private_key(65537, 2048)


@pytest.mark.parametrize(
    ("damage", "file", "says"),
    [
        pytest.param(_empty, "ca-key.pem", "holds no key and certificate that can be read", id="empty"),
        pytest.param(_cut, "ca-key.pem", "holds no key and certificate that can be read", id="cut"),
        pytest.param(_no_certificate, "ca-key.pem", "holds no key and certificate", id="no-certificate"),
        pytest.param(_other_key, "ca-key.pem", "holds a certificate of another key", id="other-key"),
        pytest.param(_write(_RSA, "x", True), "ca-key.pem", "holds another key than one on P-256", id="rsa"),
        pytest.param(_write(_P384, "x", True), "ca-key.pem", "holds another key than one on P-256", id="other-curve"),
        pytest.param(_write(_P256, "mitmproxy", True), "ca-key.pem", "was not made here", id="foreign"),
        pytest.param(_write(_P256, "grantproxy CA x", False), "ca-key.pem", "was not made here", id="not-a-ca"),
        pytest.param(lambda d: (d / "ca-key.pem").chmod(0o644), "ca-key.pem", "run `chmod 600", id="open-to-others"),
        pytest.param(lambda d: (d / "ca-key.pem").unlink(), "ca-key.pem", "is missing beside", id="missing-key"),
        pytest.param(_linked, "ca-key.pem", "cannot be read", id="symbolic-link"),
        pytest.param(lambda d: (d / "ca.pem").write_text("x"), "ca.pem", "is not the one of", id="foreign-copy"),
        pytest.param(_unreadable_copy, "ca.pem", "cannot be read: is a directory", id="unreadable-copy"),
    ],
)  # fmt: skip
def test_a_broken_or_foreign_ca_stops_the_start(
    tmp_path: Path, damage: Callable[[Path], None], file: str, says: str
) -> None:
    """A CA that is not as it was made is named with a remedy, and never replaced in silence."""
    load_ca(tmp_path)
    damage(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(StartRefused) as caught:
        load_ca(tmp_path)
    assert f"`{tmp_path / file}`" in str(caught.value)
    assert says in str(caught.value)
    assert "; " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}


def test_a_missing_copy_is_written_again(tmp_path: Path) -> None:
    """`ca.pem` is only a copy."""
    ca = load_ca(tmp_path)
    ca.path.unlink()
    load_ca(tmp_path)
    assert ca.path.read_text() == ca.pem


@pytest.mark.parametrize(
    ("days", "says"),
    [
        pytest.param(CA_DAYS + 1, "ended on 20", id="ended"),
        pytest.param(-1, "set this machine's clock", id="not-begun"),
    ],
)
def test_a_ca_out_of_its_time_stops_the_start(tmp_path: Path, days: int, says: str) -> None:
    """No client would take a leaf of a CA that has ended, or not begun."""
    load_ca(tmp_path)
    with pytest.raises(StartRefused, match=says):
        load_ca(tmp_path, now=lambda: datetime.now(UTC) + timedelta(days=days))


def test_processes_that_start_at_once_make_one_ca(tmp_path: Path) -> None:
    """Two processes on one new state directory never make two CAs."""
    script = (
        "import sys; from pathlib import Path; from proxy.tls.ca import load_ca; "
        "print(load_ca(Path(sys.argv[1])).fingerprint)"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    prints = {process.communicate()[0].strip() for process in running}
    assert prints == {load_ca(tmp_path).fingerprint}
