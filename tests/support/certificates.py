"""Certificates for upstreams on loopback, made anew in each test session."""

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """A certificate authority as files, and the chain and key of a server that it vouches for."""

    ca: Path
    chain: Path
    authority: trustme.CA


def make_certificates(folder: Path, *names: str) -> Certificates:
    """Write an authority and a server certificate for `names` (default: the loopback names) into `folder`."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    server = authority.issue_cert(*(names or ("localhost", "127.0.0.1")), key_type=trustme.KeyType.ECDSA)
    ca, chain = folder / "upstream-ca.pem", folder / "upstream.pem"
    authority.cert_pem.write_to_path(str(ca))
    server.private_key_and_cert_chain_pem.write_to_path(str(chain))
    return Certificates(ca=ca, chain=chain, authority=authority)
