"""TLS contexts from Kafka's settings: key material as PEM or PKCS12, inline or in files.

`ssl` reads certificate chains from paths only, so the private key of this process goes through a temporary file,
encrypted with a password that only this process knows.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from secrets import token_hex
from tempfile import NamedTemporaryFile
from typing import Any, Final, NamedTuple

from quorumd.errors import ConfigError
from quorumd.security.tls import KeyStore, TlsSettings, TrustStore

_PEM: Final = b"-----BEGIN "
_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_TLS_1_3_CIPHERS: Final = ("TLS_AES_", "TLS_CHACHA20_")
_GROUP: Final = "prime256v1"
"""The group of key exchanges with clients, which all clients of Kafka support. With OpenSSL's defaults a client could
choose ffdhe8192: the server would then compute for a tenth of a second, and the client need not compute at all."""
_CONVERT: Final = "keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"


class _Identity(NamedTuple):
    """The key and the certificate chain of this process, parsed; its own certificate is the first."""

    key: Any
    chain: list[Any]


class TlsContexts(NamedTuple):
    """The contexts of one listener name."""

    server: ssl.SSLContext | None
    """For accepted connections; None without a key store."""
    client: ssl.SSLContext
    expires_at_s: float | None
    """The earliest Unix time at which a certificate of the chain in the key store expires."""


def build_contexts(settings: TlsSettings) -> TlsContexts:
    """Read the key material and build the contexts. Raises ConfigError."""
    identity = _read_key_store(settings.key_store) if settings.key_store.is_given else None
    trusted = _read_trust_store(settings.trust_store)
    server = None
    if identity is not None:
        server = _context(ssl.PROTOCOL_TLS_SERVER, settings, identity, trusted)
        server.verify_mode = _CLIENT_AUTH[settings.client_auth]
        server.set_ecdh_curve(_GROUP)
    client = _context(ssl.PROTOCOL_TLS_CLIENT, settings, identity, trusted)
    client.check_hostname = settings.verifies_host
    expiry = min(each.not_valid_after_utc.timestamp() for each in identity.chain) if identity else None
    return TlsContexts(server, client, expiry)


def subject_of(certificate_der: bytes) -> bytes:
    """The DER-encoded subject of a certificate. Raises ValueError."""
    x509 = _cryptography().x509
    try:
        subject: bytes = x509.load_der_x509_certificate(certificate_der).subject.public_bytes()
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from None
    return subject


def _context(
    protocol: ssl._SSLMethod, settings: TlsSettings, identity: _Identity | None, trusted: list[Any]
) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = min(_VERSIONS[name] for name in settings.protocols)
    context.maximum_version = max(_VERSIONS[name] for name in settings.protocols)
    # Renegotiation costs a server more than its client.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _set_ciphers(context, settings.ciphers)
    if identity is not None:
        _load_identity(context, identity)
    if trusted:
        pem = _cryptography().pem
        context.load_verify_locations(cadata="".join(each.public_bytes(pem).decode() for each in trusted))
    elif protocol == ssl.PROTOCOL_TLS_CLIENT or settings.client_auth != "none":
        context.load_default_certs()
    return context


def _set_ciphers(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """Allow the cipher suites of TLS 1.2 with these names; the suites of TLS 1.3 cannot be chosen."""
    chosen = [name for name in names if not name.startswith(_TLS_1_3_CIPHERS)]
    if not chosen:
        return
    known = {
        _iana_name(cipher["name"]): cipher["name"] for cipher in ssl.create_default_context().get_ciphers()
    }
    try:
        context.set_ciphers(":".join(known.get(name, name) for name in chosen))
    except ssl.SSLError:
        raise ConfigError(
            f"ssl.cipher.suites={','.join(names)}: none is known to {ssl.OPENSSL_VERSION}; remove the property "
            "to use the defaults"
        ) from None


def _iana_name(openssl_name: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` for OpenSSL's `ECDHE-RSA-AES128-GCM-SHA256`."""
    for bits in ("128", "256"):
        openssl_name = openssl_name.replace(f"AES{bits}", f"WITH-AES-{bits}")
    name = openssl_name.replace("CHACHA20-POLY1305", "WITH-CHACHA20-POLY1305-SHA256").replace("-", "_")
    return f"TLS_{name}"


def _load_identity(context: ssl.SSLContext, identity: _Identity) -> None:
    crypto = _cryptography()
    password = token_hex(16)
    key = identity.key.private_bytes(crypto.pem, crypto.pkcs8, crypto.encrypted(password.encode()))
    with NamedTemporaryFile(prefix="quorumd-") as file:
        file.write(key + b"".join(each.public_bytes(crypto.pem) for each in identity.chain))
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password)
        except ssl.SSLError as error:
            raise ConfigError(f"the key does not belong to the certificate: {error.reason}") from None


def _read_key_store(store: KeyStore) -> _Identity:
    crypto = _cryptography()
    if not store.location:
        return _identity_from_pem(
            "ssl.keystore.certificate.chain", store.key, store.certificate_chain, store.key_password
        )
    data = _read_file("ssl.keystore.location", store.location)
    if data.lstrip().startswith(_PEM):
        text = data.decode(errors="replace")
        return _identity_from_pem(store.location, text, text, store.key_password)
    try:
        content = crypto.pkcs12.load_pkcs12(data, store.password.encode() or None)
    except ValueError as error:
        raise ConfigError(
            f"ssl.keystore.location={store.location}: not readable as PKCS12; check ssl.keystore.password ({error})"
        ) from None
    if content.key is None or content.cert is None:
        raise ConfigError(f"ssl.keystore.location={store.location}: has no private key with a certificate")
    chain = [content.cert.certificate, *(each.certificate for each in content.additional_certs)]
    return _Identity(content.key, chain)


def _identity_from_pem(where: str, key: str, chain: str, password: str) -> _Identity:
    crypto = _cryptography()
    begin = key.find("-----BEGIN ", 0)
    while begin >= 0 and "PRIVATE KEY-----" not in key[begin : begin + 40]:
        begin = key.find("-----BEGIN ", begin + 1)
    try:
        private_key = crypto.load_pem_private_key(key[max(begin, 0) :].encode(), password.encode() or None)
        certificates = crypto.x509.load_pem_x509_certificates(chain.encode())
    except (ValueError, TypeError, crypto.unsupported) as error:
        raise ConfigError(f"{where}: needs a private key and a certificate chain in PEM: {error}") from None
    return _Identity(private_key, certificates)


def _read_trust_store(store: TrustStore) -> list[Any]:
    crypto = _cryptography()
    where, data = "ssl.truststore.certificates", store.certificates.encode()
    if store.location:
        where = f"ssl.truststore.location={store.location}"
        data = _read_file("ssl.truststore.location", store.location)
    if not data:
        return []
    try:
        if data.lstrip().startswith(_PEM):
            return list(crypto.x509.load_pem_x509_certificates(data))
        content = crypto.pkcs12.load_pkcs12(data, store.password.encode() or None)
    except ValueError as error:
        raise ConfigError(
            f"{where}: neither certificates in PEM nor PKCS12 with this password: {error}"
        ) from None
    own = [content.cert] if content.cert is not None else []
    return [each.certificate for each in (*own, *content.additional_certs)]


def _read_file(key: str, path: str) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}={path}: cannot be read: {error.strerror or error}") from None
    if data.startswith(_JKS):
        raise ConfigError(f"{key}={path}: JKS is not supported; convert it: {_CONVERT.format(path=path)}")
    return data


class _Cryptography(NamedTuple):
    """The parts of `cryptography` that are used here."""

    x509: Any
    pkcs12: Any
    load_pem_private_key: Any
    pem: Any
    pkcs8: Any
    encrypted: Any
    unsupported: type[Exception]


def _cryptography() -> _Cryptography:
    """Load `cryptography` when it is first needed: a node without TLS does not need it."""
    try:
        from cryptography import x509
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ConfigError("TLS needs the package cryptography: pip install 'quorumd[security]'") from None
    return _Cryptography(
        x509,
        pkcs12,
        serialization.load_pem_private_key,
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption,
        UnsupportedAlgorithm,
    )
