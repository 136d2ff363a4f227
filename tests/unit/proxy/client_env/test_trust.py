"""The files by which clients trust the CA: whole, public, and written again only when they differ."""

import os
import shutil
import ssl
import stat
import subprocess
from pathlib import Path

import certifi
import pytest
import trustme

from proxy.client_env import trust as module
from proxy.client_env.trust import TrustFiles, renew_trust, write_trust
from proxy.state import StartRefused
from proxy.tls.ca import CA

JAVA = pytest.mark.skipif(shutil.which("keytool") is None, reason="keytool (Java) is not installed")


def authority() -> bytes:
    return trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.bytes()


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system's bundle of two authorities, named by `SSL_CERT_FILE`."""
    path = tmp_path / "system.pem"
    path.write_bytes(b"# ours \xff\n" + authority() + b"\n# and\n" + authority().replace(b"\n", b"\r\n"))
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


def loaded(bundle: Path) -> list[bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=bundle)
    return context.get_ca_certs(binary_form=True)


def marks(files: TrustFiles) -> dict[str, tuple[int, int]]:
    found = (files.ca, files.bundle, files.pkcs12, files.wgetrc)
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def test_the_bundle_holds_the_system_s_and_ours(state: Path, ca: CA, system: Path) -> None:
    """Most clients replace what they trust by the file that they are handed."""
    files = write_trust(state, ca.pem.encode())
    ours = ssl.PEM_cert_to_DER_cert(ca.pem)
    assert files.system == system
    assert loaded(files.ca) == [ours]
    assert len(loaded(files.bundle)) == 3
    assert ours in loaded(files.bundle)
    assert files.wgetrc.read_text() == f"ca_certificate = {files.bundle}\n"
    assert b"#" not in files.bundle.read_bytes()


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o000], ids=oct)
def test_files_are_public_and_hold_no_key(state: Path, ca: CA, system: Path, umask: int) -> None:
    """A client of another user, as in a container, can read them, whatever the umask; nobody else can write them."""
    before = os.umask(umask)
    try:
        files = write_trust(state, ca.pem.encode())
    finally:
        os.umask(before)
    folder = files.ca.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert b"PRIVATE KEY" not in path.read_bytes()


def test_nothing_is_written_twice(state: Path, ca: CA, system: Path) -> None:
    """A client that is reading them sees no change; each file that differs is replaced, and only that."""
    files = write_trust(state, ca.pem.encode())
    before = marks(files)
    assert write_trust(state, ca.pem.encode()) == files
    assert marks(files) == before
    files.ca.write_text("else")
    assert write_trust(state, ca.pem.encode()) == files
    assert {name for name, mark in marks(files).items() if mark != before[name]} == {"ca.pem"}
    system.write_bytes(authority())
    write_trust(state, ca.pem.encode())
    assert len(loaded(files.bundle)) == 2


@pytest.mark.parametrize("damage", [b"", b"no store", None], ids=["empty", "text", "a directory's place"])
def test_a_damaged_store_is_replaced(state: Path, ca: CA, system: Path, damage: bytes | None) -> None:
    """What cannot be read as ours is not ours; what is no file is refused by its name."""
    files = write_trust(state, ca.pem.encode())
    files.pkcs12.unlink()
    if damage is None:
        files.pkcs12.mkdir()
        with pytest.raises(StartRefused, match=r"bundle\.p12` cannot be written"):
            write_trust(state, ca.pem.encode())
        return
    files.pkcs12.write_bytes(damage)
    write_trust(state, ca.pem.encode())
    assert len(files.pkcs12.read_bytes()) > 1000


def test_clients_elsewhere_have_a_wgetrc_of_their_own(state: Path, ca: CA, system: Path) -> None:
    """It names a path, so that telling a container about its files changes nothing for clients here."""
    here = write_trust(state, ca.pem.encode())
    before = marks(here)
    there = write_trust(state, ca.pem.encode(), seen=Path("/grantproxy"))
    assert (there.bundle, there.ca, there.pkcs12) == (
        Path("/grantproxy/bundle.pem"),
        Path("/grantproxy/ca.pem"),
        Path("/grantproxy/bundle.p12"),
    )
    assert (here.bundle.parent / there.wgetrc.name).read_text() == "ca_certificate = /grantproxy/bundle.pem\n"
    assert there.wgetrc.name != here.wgetrc.name
    assert marks(here) == before


# --- a new CA ---


def test_a_new_ca_takes_the_place_of_the_old(
    state: Path, ca: CA, system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every file, and nowhere beside it; what else was trusted stays, whatever this process knows of the system."""
    files, new = write_trust(state, ca.pem.encode()), authority()
    theirs = [each for each in loaded(files.bundle) if each != ssl.PEM_cert_to_DER_cert(ca.pem)]
    wgetrc = files.wgetrc.read_bytes()
    system.unlink()
    monkeypatch.setenv("SSL_CERT_FILE", "/none")
    before = module._stored(files.pkcs12.read_bytes())
    assert renew_trust(state, new) == files.ca.parent
    assert files.ca.read_bytes() == new
    assert loaded(files.bundle) == [*theirs, ssl.PEM_cert_to_DER_cert(new.decode())]
    old, added = (module._digest(next(module._loaded([pem]))) for pem in (ca.pem.encode(), new))
    assert module._stored(files.pkcs12.read_bytes()) == before - {old} | {added}
    assert files.wgetrc.read_bytes() == wgetrc
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.ca.parent.iterdir()} == {0o644}


def test_the_same_ca_changes_nothing(state: Path, ca: CA, system: Path) -> None:
    """Only a CA that is another than theirs is a reason to write, not what the system trusts by now."""
    files = write_trust(state, ca.pem.encode())
    before = marks(files)
    system.write_bytes(authority())
    assert renew_trust(state, ca.pem.encode()) is None
    assert marks(files) == before


@pytest.mark.parametrize("there", ["nothing", "a file", "an empty directory", "a link"])
def test_files_that_nobody_was_told_of_are_not_made(state: Path, ca: CA, tmp_path: Path, there: str) -> None:
    """Whatever else has the directory's name is left alone, and is no reason not to start."""
    folder, elsewhere = state / "trust", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "bundle.pem").write_text("mine")
    if there == "a file":
        folder.write_text("mine")
    elif there == "an empty directory":
        folder.mkdir()
    elif there == "a link":
        folder.symlink_to(elsewhere)
    assert renew_trust(state, ca.pem.encode()) is None
    assert [path.name for path in elsewhere.iterdir()] == ["bundle.pem"]
    assert (elsewhere / "bundle.pem").read_text() == "mine"
    assert folder.exists() is (there != "nothing")
    assert not folder.is_dir() or there == "a link" or not list(folder.iterdir())


@pytest.mark.parametrize("left", ["ca.pem", "bundle.p12"])
def test_what_was_done_in_part_is_done_again(state: Path, ca: CA, system: Path, left: str) -> None:
    """A start that ended on the way leaves files that the next one finds to be old."""
    files, new = write_trust(state, ca.pem.encode()), authority()
    (files.ca.parent / left).unlink()
    (files.ca.parent / left).mkdir()
    with pytest.raises(StartRefused, match=rf"{left}` cannot be written"):
        renew_trust(state, new)
    (files.ca.parent / left).rmdir()
    assert renew_trust(state, new) == files.ca.parent
    assert ssl.PEM_cert_to_DER_cert(new.decode()) in loaded(files.bundle)
    assert files.ca.read_bytes() == new
    assert len(module._stored(files.pkcs12.read_bytes())) == len(loaded(files.bundle))
    assert renew_trust(state, new) is None


# --- where the system's authorities come from ---


def test_our_own_bundle_is_not_the_system_s(
    state: Path, ca: CA, system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shell that has our variables already, the system's bundle is still the system's, not what it was then."""
    files = write_trust(state, ca.pem.encode())
    monkeypatch.setenv("SSL_CERT_FILE", str(files.bundle))
    monkeypatch.setattr(module, "_USUAL", (system,))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: _paths(tmp_path / "none"))
    assert write_trust(state, ca.pem.encode()).system == system


@pytest.mark.parametrize("content", [None, b"", b"no certificate"], ids=["missing", "empty", "text"])
def test_a_bundle_without_certificates_is_passed_over(
    state: Path, ca: CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """The next one is taken; where there is none on the machine, certifi's."""
    path = tmp_path / "given.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    monkeypatch.setattr(module, "_USUAL", (tmp_path / "other.pem",))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: _paths(tmp_path / "none"))
    assert write_trust(state, ca.pem.encode()).system == Path(certifi.where())


def _paths(cafile: Path) -> ssl.DefaultVerifyPaths:
    return ssl.DefaultVerifyPaths(None, None, "SSL_CERT_FILE", str(cafile), "SSL_CERT_DIR", "")


def test_a_certificate_that_cannot_be_read_stays_in_the_bundle_alone(state: Path, ca: CA, system: Path) -> None:
    """It is the system's, whose readers pass it over; Java's store holds what can be read."""
    odd = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    system.write_bytes(authority() + odd)
    files = write_trust(state, ca.pem.encode())
    assert odd in files.bundle.read_bytes()
    assert files.pkcs12.exists()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_has_the_directory_s_name_is_refused(state: Path, ca: CA, tmp_path: Path, kind: str) -> None:
    """Nothing is written into or over what is not ours."""
    if kind == "file":
        (state / "trust").write_text("mine")
    else:
        (tmp_path / "elsewhere").mkdir()
        (state / "trust").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StartRefused, match=r"trust` (cannot be made|is a symbolic link)"):
        write_trust(state, ca.pem.encode())
    assert not (tmp_path / "elsewhere" / "ca.pem").exists()


@JAVA
def test_java_reads_every_certificate_as_trusted(state: Path, ca: CA, system: Path) -> None:
    """A PKCS12 store without Java's own mark on an entry holds nothing that Java trusts."""
    files = write_trust(state, ca.pem.encode())
    arguments = ["-keystore", str(files.pkcs12), "-storepass", files.pkcs12_password, "-storetype", "PKCS12"]
    done = subprocess.run(["keytool", "-list", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.count("trustedCertEntry") == 3
    assert ca.fingerprint in done.stdout
