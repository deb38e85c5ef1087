"""The TLS settings of one listener name: keys, trusted certificates, protocols and ciphers."""

from __future__ import annotations

from dataclasses import dataclass, field

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH = ("none", "requested", "required")


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The certificate chain of a node or client and its key: in a file (PEM or PKCS12), or as PEM text."""

    location: str = ""
    password: str = field(default="", repr=False)
    """The password of a PKCS12 file."""
    key_password: str = field(default="", repr=False)
    certificate_chain: str = ""
    key: str = field(default="", repr=False)

    @property
    def is_given(self) -> bool:
        """Whether there is a certificate chain."""
        return bool(self.location or self.certificate_chain)


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The trusted certificates: in a file (PEM or PKCS12), or as PEM text; by default the system's certificates."""

    location: str = ""
    password: str = field(default="", repr=False)
    certificates: str = ""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of one listener name, for accepted connections and for connections to other nodes."""

    key_store: KeyStore = KeyStore()
    trust_store: TrustStore = TrustStore()
    client_auth: str = "none"
    protocols: tuple[str, ...] = PROTOCOLS
    ciphers: tuple[str, ...] = ()
    """IANA or OpenSSL names; empty for the defaults."""
    verifies_host: bool = True
    """Whether the certificate of a server must name its host."""
    principal_rules: str = "DEFAULT"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read again when they change."""
        return tuple(each for each in (self.key_store.location, self.trust_store.location) if each)
