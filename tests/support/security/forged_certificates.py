"""Client certificates that cost a server much: with thousands of names, in long chains, and in chains that could go
on with any of many certificates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

NAMES = 3500
"""Nearly as many as OpenSSL accepts from a client: 100 KiB in all."""
TRUSTED_NAMES = 2000
"""A server cannot write a session ticket for a certificate with more."""
CHAIN = 200
Key = ec.EllipticCurvePrivateKey


class Forger:
    """Writes files with key and chain. `directory` has the authority that the server trusts, with its key."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())

    def untrusted(self) -> Iterator[Path]:
        """Return certificates that the server refuses."""
        names = [f"name-{number:05}.example" for number in range(NAMES)]
        yield self._write("names", [self._issue("leaf", "nobody", names)])
        yield self._write(
            "long", [self._issue(f"link-{number}", f"link-{number + 1}") for number in range(CHAIN)]
        )
        same = [self._issue("same", "same", serial=number + 1) for number in range(CHAIN)]
        yield self._write("same", same)

    def trusted(self) -> Path:
        """Return a certificate of the trusted authority."""
        authority = x509.load_pem_x509_certificate((self._directory / "ca.pem").read_bytes())
        key = load_pem_private_key((self._directory / "ca-key.pem").read_bytes(), None)
        assert isinstance(key, Key)
        names = [f"name-{number:05}.example" for number in range(TRUSTED_NAMES)]
        return self._write("trusted", [self._issue("trusted", authority.subject, names, key=key)])

    def _issue(
        self,
        name: str,
        issuer: str | x509.Name,
        hosts: list[str] | None = None,
        serial: int = 1,
        key: Key | None = None,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            issuer if isinstance(issuer, x509.Name) else _name(issuer),
            _name(name),
            self._key.public_key(),
            serial,
            now - timedelta(days=1),
            now + timedelta(days=1),
        )
        if hosts:
            names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        else:
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return builder.sign(key or self._key, SHA256())

    def _write(self, name: str, chain: list[x509.Certificate]) -> Path:
        path = self._directory / f"forged-{name}.pem"
        key = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(key + b"".join(each.public_bytes(Encoding.PEM) for each in chain))
        return path


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
