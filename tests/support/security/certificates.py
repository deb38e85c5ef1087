"""A certificate authority for tests, and the PEM files of the certificates that it issues."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Certificates:
    """Files in a directory: `ca.pem`, and a `NAME.pem` with key and chain of every issued certificate."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.trusted = directory / "ca.pem"
        self.authority.cert_pem.write_to_path(self.trusted)

    def issue(self, name: str, *hosts: str, expires: datetime | None = None) -> Path:
        """Issue a certificate with CN=`name` for these hosts, by default the hosts of loopback."""
        identities = hosts or ("127.0.0.1", "localhost")
        issued = self.authority.issue_cert(
            *identities,
            common_name=name,
            organization_name="Tests",
            organization_unit_name="quorumd",
            not_after=expires,
            key_type=trustme.KeyType.ECDSA,
        )
        path = self.directory / f"{name}.pem"
        pending = path.with_suffix(".new")
        pending.write_bytes(
            _pkcs8(issued.private_key_pem.bytes()) + b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        )
        pending.replace(path)
        return path

    def properties(self, name: str, prefix: str = "") -> str:
        """Return the properties of a listener or client with the certificate of that name."""
        return (
            f"{prefix}ssl.keystore.location={self.directory / name}.pem\n"
            f"{prefix}ssl.truststore.location={self.trusted}\n"
        )

    def client_file(self, name: str, extra: str = "") -> Path:
        """Write client properties for TLS with the certificate of that name."""
        path = self.directory / f"{name}.properties"
        path.write_text(f"security.protocol=SSL\n{self.properties(name)}{extra}")
        return path


def _pkcs8(key: bytes) -> bytes:
    """Convert a private key to PKCS #8, the only PEM format that Java reads."""
    return load_pem_private_key(key, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
