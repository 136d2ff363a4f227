"""The files by which clients trust the proxy's CA, in `trust/` of the state directory.

Most clients replace their authorities by the file that they are handed, so that it has to hold the system's as well.
The directory holds nothing but what is public, so that it can be handed to a container as it is; the state directory
around it stays closed. Files are replaced in one step, and only when they differ: a running client may read them.
"""

import os
import re
import ssl
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from proxy.state import StartRefused, locked, reason, write_whole

DIRECTORY = "trust"
PASSWORD = "changeit"  # noqa: S105 - Java's own usual word; what it closes is public
_PUBLIC_FILE = 0o644
_PUBLIC_DIRECTORY = 0o755
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")

# Where distributions keep their bundle: Debian and Alpine; Fedora and RHEL; openSUSE; FreeBSD, macOS and others.
_USUAL = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/ca-bundle.pem"),
    Path("/etc/ssl/cert.pem"),
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrustFiles:
    """What a client is handed; all of it is public.

    Attributes:
        ca: our CA alone, PEM.
        bundle: the system's authorities and ours, PEM.
        pkcs12: the same as a trust store for Java.
        pkcs12_password: what opens it. Java trusts nothing of a store that it opens without one.
        wgetrc: start-up file for wget, which reads no variable that names a bundle.
        system: where the system's authorities came from.
    """

    ca: Path
    bundle: Path
    pkcs12: Path
    pkcs12_password: str
    wgetrc: Path
    system: Path


def write_trust(state: Path, ca_pem: bytes, *, seen: Path | None = None) -> TrustFiles:
    """Write what differs, and say where it all is.

    Args:
        state: the state directory, as `private_directory` made it.
        ca_pem: the CA's certificate, without its key.
        seen: the directory in which clients have the files, where that is another, such as a container's mount. What
            is returned is then as they see it.

    Raises:
        StartRefused: a file cannot be written, or something else has the directory's name.
    """
    directory = state.absolute() / DIRECTORY
    with locked(state):
        _make_public(directory)
        system, theirs = _system(directory)
        certificates = [*theirs, *(pem for pem in _pems(ca_pem) if pem not in theirs)]
        _replace(directory / "ca.pem", b"".join(_pems(ca_pem)))
        _replace(directory / "bundle.pem", b"".join(certificates))
        _replace_store(directory / "bundle.p12", certificates)
        # It names a path: those who see it here and those who see it elsewhere have one each.
        wgetrc = "mounted.wgetrc" if seen else "wgetrc"
        shown = seen or directory
        _replace(directory / wgetrc, b"ca_certificate = %s\n" % os.fsencode(shown / "bundle.pem"))
    return TrustFiles(
        ca=shown / "ca.pem",
        bundle=shown / "bundle.pem",
        pkcs12=shown / "bundle.p12",
        pkcs12_password=PASSWORD,
        wgetrc=shown / wgetrc,
        system=system,
    )


def renew_trust(state: Path, ca_pem: bytes) -> Path | None:
    """Put the CA in place of another one that the files hold, for clients that were told of them before.

    What else the bundle holds stays: whoever had it written may know of other authorities than this process. Files that
    are not there are not made.

    Args:
        state: the state directory. ca_pem: the CA's certificate, without its key.

    Returns:
        The directory of the files; None where there are none, or they hold this CA.

    Raises:
        StartRefused: a file cannot be written.
    """
    directory = state.absolute() / DIRECTORY
    bundle = directory / "bundle.pem"
    if directory.is_symlink() or not bundle.is_file():
        return None
    ours = _pems(ca_pem)
    with locked(state):
        before = _pems(_read(directory / "ca.pem") or b"")
        if before == ours:
            return None
        kept = [pem for pem in _pems(_read(bundle) or b"") if pem not in (*before, *ours)]
        _replace(bundle, b"".join([*kept, *ours]))
        _replace_store(directory / "bundle.p12", [*kept, *ours])
        # Last, since the next start looks here whether all is done.
        _replace(directory / "ca.pem", b"".join(ours))
    return directory


def _make_public(directory: Path) -> None:
    try:
        directory.mkdir(exist_ok=True)
        if directory.is_symlink():
            raise StartRefused(f"`{directory}` is a symbolic link; remove it to have a directory made")
        directory.chmod(_PUBLIC_DIRECTORY)
    except OSError as error:
        raise StartRefused(
            f"directory `{directory}` cannot be made: {reason(error)}; move away what is there"
        ) from None


def _system(ours: Path) -> tuple[Path, list[bytes]]:
    """The first bundle with a certificate in it: the one of `SSL_CERT_FILE`, OpenSSL's, the usual ones, certifi's.

    One of our own is passed over: a shell that has our variables already would have us keep what was the system's then.
    """
    paths = ssl.get_default_verify_paths()
    given = os.environ.get(paths.openssl_cafile_env)
    certifis = Path(certifi.where())
    for path in (*(Path(name) for name in (given, paths.openssl_cafile) if name), *_USUAL):
        if path.parent.name == DIRECTORY and path.name == "bundle.pem" and path.with_suffix(".p12").exists():
            continue
        try:
            found = _pems(path.read_bytes())
        except OSError:
            continue
        if found:
            return path, found
    return certifis, _pems(certifis.read_bytes())


def _pems(data: bytes) -> list[bytes]:
    """The certificates of a bundle, each once, without what is written around them."""
    return list(dict.fromkeys(match[0].replace(b"\r\n", b"\n") + b"\n" for match in _CERTIFICATE.finditer(data)))


def _read(path: Path) -> bytes | None:
    """What is at `path`; None for nothing, or nothing that can be read, which is then replaced."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _replace(path: Path, data: bytes) -> None:
    if _read(path) != data:
        write_whole(path, data, _PUBLIC_FILE)


def _replace_store(path: Path, pems: Sequence[bytes]) -> None:
    """The trust store. Its encryption differs each time, so what is in it is compared."""
    wanted = list(_loaded(pems))
    if (stored := _read(path)) is not None and _stored(stored) == {_digest(certificate) for certificate in wanted}:
        return
    closed = (
        serialization.PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(2048)
        .key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC)
        .hmac_hash(hashes.SHA256())
        .build(PASSWORD.encode())
    )
    # Java knows the certificates by name, each its own.
    entries = [pkcs12.PKCS12Certificate(certificate, _digest(certificate).hex().encode()) for certificate in wanted]
    write_whole(path, pkcs12.serialize_java_truststore(entries, closed), _PUBLIC_FILE)


def _stored(data: bytes) -> set[bytes]:
    try:
        with _quiet():
            found = pkcs12.load_pkcs12(data, PASSWORD.encode()).additional_certs
    except ValueError:
        return set()
    return {_digest(entry.certificate) for entry in found}


def _loaded(pems: Iterable[bytes]) -> Iterator[x509.Certificate]:
    """The certificates that can be read. A system's bundle may hold old ones that cannot; Java could not either."""
    for pem in pems:
        try:
            with _quiet():
                certificate = x509.load_pem_x509_certificate(pem)
        except ValueError:
            continue
        yield certificate


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings about what is odd in old authorities: they are the system's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _digest(certificate: x509.Certificate) -> bytes:
    return certificate.fingerprint(hashes.SHA256())
