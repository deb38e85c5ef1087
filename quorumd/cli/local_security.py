"""TLS, SASL and authorization of a local cluster: the files of `quorumd cluster up --secure`.

    <directory>/security/ca.pem, ca-key.pem     the certificate authority, and its key for further certificates
    <directory>/security/node-<i>.pem           key and certificate of each node
    <directory>/security/client.properties      client properties of the user admin, for all tools
    <directory>/security/token-secret           the secret from which delegation tokens are derived

Nodes authenticate to each other with their certificates, and clients as SCRAM users at the listener CLIENTS. All
nodes and admin are super users; others need ACLs.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quorumd.cli.private_files import make_directory, write
from quorumd.errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

ADMIN: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"
VALIDITY: Final = timedelta(days=3650)
_CLOCK_SKEW: Final = timedelta(hours=1)
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class LocalSecurity:
    """The keys and the users of a cluster of `nodes` nodes."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self._directory = directory / "security"
        self._nodes = nodes

    @property
    def client_file(self) -> Path:
        """The client properties of the user admin."""
        return self._directory / "client.properties"

    def create(self) -> UserScramCredentialRecord:
        """Create all files and return the credential of the user admin. Raises ConfigError without `cryptography`."""
        from quorumd.controller.scram_credentials import parse_credential

        make_directory(self._directory)
        self._issue_certificates()
        password = secrets.token_urlsafe(24)
        write(
            self.client_file,
            "# The user admin, for --command-config of Kafka's tools and of quorumd.\n"
            "security.protocol=SASL_SSL\n"
            f"sasl.mechanism={MECHANISM}\n"
            f'sasl.jaas.config={_SCRAM_MODULE} required username="{ADMIN}" password="{password}";\n'
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self._directory / 'ca.pem'}\n",
        )
        return parse_credential(
            f"{MECHANISM}=[name={ADMIN},password={password}]", lambda: secrets.token_bytes(24)
        )

    def properties(self, node_id: int) -> str:
        """The properties of a node, besides its listeners."""
        super_users = ";".join(f"User:{name}" for name in (ADMIN, *map(node_name, range(self._nodes))))
        return (
            "# Nodes have certificates, clients are SCRAM users; `quorumd users` and `quorumd acls` add others.\n"
            "listener.security.protocol.map=CONTROLLER:SSL,REPLICATION:SSL,CLIENTS:SASL_SSL\n"
            "ssl.keystore.type=PEM\n"
            f"ssl.keystore.location={self._directory / f'{node_name(node_id)}.pem'}\n"
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self._directory / 'ca.pem'}\n"
            "ssl.client.auth=required\n"
            "ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/\n"
            f"listener.name.clients.sasl.enabled.mechanisms={MECHANISM}\n"
            f"authorizer.class.name={_AUTHORIZER}\n"
            f"super.users={super_users}\n"
            f"delegation.token.secret.key={self._token_secret()}\n"
        )

    def _token_secret(self) -> str:
        """The secret that all nodes share; created at the first call."""
        path = self._directory / "token-secret"
        if not path.exists():
            write(path, secrets.token_urlsafe(32))
        return path.read_text()

    def _issue_certificates(self) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
            from cryptography.hazmat.primitives.serialization import Encoding
        except ImportError:
            raise ConfigError(
                "--secure needs the package cryptography: pip install 'quorumd[security]'"
            ) from None
        authority_key = generate_private_key(SECP256R1())
        authority = _certificate("quorumd cluster CA", authority_key, None)
        write(self._directory / "ca.pem", authority.public_bytes(Encoding.PEM))
        write(self._directory / "ca-key.pem", _pem(authority_key))
        for node_id in range(self._nodes):
            key = generate_private_key(SECP256R1())
            issued = _certificate(node_name(node_id), key, (authority, authority_key))
            write(
                self._directory / f"{node_name(node_id)}.pem", _pem(key) + issued.public_bytes(Encoding.PEM)
            )


def node_name(node_id: int) -> str:
    """The common name of a node's certificate, by which it is a super user."""
    return f"node-{node_id}"


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    """The private key in the only PEM format that Java reads."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate(
    name: str,
    key: EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, EllipticCurvePrivateKey] | None,
) -> x509.Certificate:
    """A certificate for loopback, signed by `issuer`; without it the certificate of an authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    signer = key
    if issuer is None:
        usage = x509.KeyUsage(
            *(False,) * 5, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False
        )
        builder = builder.add_extension(usage, critical=True)
    else:
        signer = issuer[1]
        hosts: list[x509.GeneralName] = [
            x509.IPAddress(ip_address("127.0.0.1")),
            x509.DNSName("localhost"),
        ]
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = (
            builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(authority_key, critical=False)
        )
    return builder.sign(signer, SHA256())
