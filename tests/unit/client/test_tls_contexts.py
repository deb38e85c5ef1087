"""Key material in all of its forms: made by keytool, in PEM files, and as PEM text."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from quorumd.client.security import connection_failure
from quorumd.client.tls import build_contexts, subject_of
from quorumd.errors import ConfigError
from quorumd.security.tls import KeyStore, TlsSettings, TrustStore
from tests.support.security import renegotiation
from tests.support.security.certificates import Certificates

KEYTOOL = Path(__file__).parents[2] / "support/data/keytool"
PASSWORD = "changeit"
"""Of the stores that `keytool` of Java 17 made: a key with a chain of two certificates, and the authority."""
BY_KEYTOOL = TlsSettings(
    KeyStore(str(KEYTOOL / "keystore.p12"), PASSWORD),
    TrustStore(str(KEYTOOL / "truststore.p12"), PASSWORD),
    client_auth="required",
)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    found = Certificates(tmp_path)
    found.issue("node-1")
    return found


def subject_at_server(settings: TlsSettings, host: str = "localhost") -> str:
    """Connect a client and a server with the same settings; returns the subject that the server sees."""
    contexts = build_contexts(settings)
    assert contexts.server is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = contexts.client.wrap_bio(to_client, to_server, server_hostname=host)
    server = contexts.server.wrap_bio(to_server, to_client, server_side=True)
    open_ends = [client, server]
    for _ in range(10):
        for end in list(open_ends):
            try:
                end.do_handshake()
                open_ends.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert open_ends == []
    presented = server.getpeercert(binary_form=True)
    assert presented is not None
    assert subject_of(presented)
    return x509.load_der_x509_certificate(presented).subject.rfc4514_string()


def test_certificate_of_an_unknown_version_is_invalid() -> None:
    version_3, version_5 = bytes.fromhex("a003020102"), bytes.fromhex("a003020104")
    certificate = trustme.CA().issue_cert("node-1").cert_chain_pems[0].bytes()
    der = x509.load_pem_x509_certificate(certificate).public_bytes(Encoding.DER)
    assert der.count(version_3) == 1
    with pytest.raises(ValueError, match="4 is not a valid X509 version"):
        subject_of(der.replace(version_3, version_5))


def test_stores_of_keytool_are_read() -> None:
    assert subject_at_server(BY_KEYTOOL) == "CN=node-1,OU=quorumd,O=Tests"
    expires_s = build_contexts(BY_KEYTOOL).expires_at_s
    assert expires_s is not None
    assert expires_s > 4_000_000_000


def test_pem_files_are_read(certificates: Certificates) -> None:
    keys, trusted = (
        KeyStore(str(certificates.directory / "node-1.pem")),
        TrustStore(str(certificates.trusted)),
    )
    assert "CN=node-1" in subject_at_server(TlsSettings(keys, trusted, "required"))


@pytest.mark.parametrize("password", ["", "secret"])
def test_pem_text_is_read(certificates: Certificates, password: str) -> None:
    pem = (certificates.directory / "node-1.pem").read_bytes()
    key = load_pem_private_key(pem, None)
    text = pem.decode()
    if password:
        encryption = BestAvailableEncryption(password.encode())
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
    chain = pem[pem.index(b"-----BEGIN CERT") :].decode()
    keys = KeyStore(key_password=password, certificate_chain=chain, key=text)
    trusted = TrustStore(certificates=certificates.trusted.read_text())
    assert "CN=node-1" in subject_at_server(TlsSettings(keys, trusted, "required"))


def refusal(settings: TlsSettings) -> str:
    with pytest.raises(ConfigError) as refused:
        build_contexts(settings)
    return str(refused.value)


@pytest.mark.parametrize("kind", ["ssl.keystore.location", "ssl.truststore.location"])
def test_jks_is_refused_with_the_command_that_converts_it(kind: str) -> None:
    path = str(KEYTOOL / "keystore.jks")
    keys, trusted = KeyStore(path, PASSWORD), TrustStore(path, PASSWORD)
    settings = TlsSettings(keys) if "key" in kind else TlsSettings(trust_store=trusted)
    text = refusal(settings)
    assert f"{kind}={path}" in text
    assert (
        f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12" in text
    )


def test_unusable_stores_are_named(certificates: Certificates, tmp_path: Path) -> None:
    path = BY_KEYTOOL.key_store.location
    wrong = refusal(replace(BY_KEYTOOL, key_store=KeyStore(path, "guessed")))
    assert path in wrong
    assert "guessed" not in wrong
    trusted = BY_KEYTOOL.trust_store.location
    assert trusted in refusal(replace(BY_KEYTOOL, trust_store=TrustStore(trusted, "guessed")))
    assert trusted in refusal(TlsSettings(KeyStore(trusted, PASSWORD))), "a store without a key"
    assert "/absent.pem" in refusal(TlsSettings(KeyStore("/absent.pem")))
    assert "ssl.keystore.certificate.chain" in refusal(TlsSettings(KeyStore(certificate_chain="x", key="y")))
    certificates.issue("other")
    first, second = ((certificates.directory / name).read_text() for name in ("node-1.pem", "other.pem"))
    (tmp_path / "mixed.pem").write_text(
        first[: first.index("-----BEGIN CERT")] + second[second.index("-----BEGIN CERT") :]
    )
    assert "key" in refusal(TlsSettings(KeyStore(str(tmp_path / "mixed.pem"))))


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_certificate_of_a_client_is_requested(client_auth: str) -> None:
    assert subject_at_server(replace(BY_KEYTOOL, client_auth=client_auth))


def test_alert_of_a_node_is_the_reason_for_its_client() -> None:
    required = build_contexts(BY_KEYTOOL).server
    assert required is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    without = build_contexts(TlsSettings(trust_store=BY_KEYTOOL.trust_store)).client
    client = without.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = required.wrap_bio(to_server, to_client, server_side=True)
    # The server requests a key share of its group first.
    for end in (client, server) * 2:
        with pytest.raises(ssl.SSLWantReadError):
            end.do_handshake()
    client.do_handshake()
    with pytest.raises(ssl.SSLError):
        server.do_handshake()
    with pytest.raises(ssl.SSLError) as refused:
        client.read()
    reason = connection_failure(refused.value)
    assert reason == "refused by the node in the TLS handshake: certificate required"


def test_host_of_a_server_is_verified_unless_that_is_disabled() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        subject_at_server(BY_KEYTOOL, "elsewhere.example")
    assert subject_at_server(replace(BY_KEYTOOL, verifies_host=False), "elsewhere.example")


def test_expiry_is_that_of_the_first_certificate_of_the_chain_to_expire(
    certificates: Certificates, tmp_path: Path
) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=20)
    own = certificates.issue("node-1", expires=soon + timedelta(days=20)).read_bytes()
    other = certificates.issue("other", expires=soon).read_bytes()
    chain = [x509.load_pem_x509_certificates(pem)[0] for pem in (own, other)]
    key = load_pem_private_key(own, None)
    assert isinstance(key, EllipticCurvePrivateKey)
    store = pkcs12.serialize_key_and_certificates(
        b"node-1", key, chain[0], chain[1:], BestAvailableEncryption(PASSWORD.encode())
    )
    (tmp_path / "chain.p12").write_bytes(store)
    contexts = build_contexts(TlsSettings(KeyStore(str(tmp_path / "chain.p12"), PASSWORD)))
    assert contexts.expires_at_s == soon.timestamp()


def test_cipher_suites_have_the_names_of_java_or_openssl(certificates: Certificates) -> None:
    for name in ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"):
        settings = replace(BY_KEYTOOL, ciphers=(name, "TLS_AES_256_GCM_SHA384"), protocols=("TLSv1.2",))
        context = build_contexts(settings).server
        assert context is not None
        chosen = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
        assert chosen == {"ECDHE-ECDSA-AES128-GCM-SHA256"}
        assert subject_at_server(settings)
    assert "ssl.cipher.suites" in refusal(replace(BY_KEYTOOL, ciphers=("TLS_UNKNOWN",)))


@pytest.mark.parametrize("protocols", [("TLSv1.2",), ("TLSv1.3",), ("TLSv1.2", "TLSv1.3")])
def test_versions_are_those_of_the_settings_without_renegotiation(protocols: tuple[str, ...]) -> None:
    contexts = build_contexts(replace(BY_KEYTOOL, protocols=protocols))
    for context in (contexts.server, contexts.client):
        assert context is not None
        assert context.minimum_version.name == protocols[0].replace(".", "_")
        assert context.maximum_version.name == protocols[-1].replace(".", "_")
        assert context.options & ssl.OP_NO_RENEGOTIATION


def test_client_does_not_renegotiate_at_the_request_of_a_server(
    certificates: Certificates, tmp_path: Path
) -> None:
    """OpenSSL refuses requests of clients unless they are allowed, but not those of servers."""
    keys = KeyStore(str(certificates.directory / "node-1.pem"))
    trusted = TrustStore(str(certificates.trusted))
    contexts = build_contexts(TlsSettings(keys, trusted, "required", protocols=("TLSv1.2",)))
    assert contexts.server is not None
    contexts.server.keylog_filename = str(tmp_path / "keys")
    contexts.server.options |= ssl.OP_NO_TICKET
    contexts.client.set_ciphers(renegotiation.CIPHER)
    to_client, from_client, to_server, from_server = (ssl.MemoryBIO() for _ in range(4))
    client = contexts.client.wrap_bio(to_client, from_client, server_hostname="localhost")
    server = contexts.server.wrap_bio(to_server, from_server, server_side=True)
    sent = b""
    for _ in range(4):
        for end in (client, server):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        to_server.write(from_client.read())
        sent += (data := from_server.read())
        to_client.write(data)
    _, client_random, master = (tmp_path / "keys").read_text().splitlines()[-1].split()
    other = renegotiation.Renegotiation.of_server(
        bytes.fromhex(master), bytes.fromhex(client_random), sent[11:43]
    )
    to_client.write(other.record(renegotiation.HELLO_REQUEST, renegotiation.HANDSHAKE))
    with pytest.raises(ssl.SSLWantReadError):
        client.read(1)
    assert other.read(from_client.read()) == (renegotiation.ALERT, renegotiation.NO_RENEGOTIATION)
