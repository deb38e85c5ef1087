"""A client of TLS 1.3 that changes its keys again and again, which the `ssl` module cannot (RFC 8446, 4.6.3)."""

from __future__ import annotations

import hmac
import ssl
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SUITES = {"TLS_AES_128_GCM_SHA256": ("sha256", 16), "TLS_AES_256_GCM_SHA384": ("sha384", 32)}
"""The hash and the bytes of a key per cipher suite."""
KEY_UPDATE = b"\x18\x00\x00\x01"
HANDSHAKE, APPLICATION_DATA = 22, 23
TAG_BYTES = 16


class KeyChanges:
    """Encrypts the records of a client whose handshake is complete and that has sent nothing since."""

    def __init__(self, cipher: str, secret: bytes) -> None:
        self._hash, self._key_bytes = SUITES[cipher]
        self._secret = secret
        self._number = 0
        self._use()

    def update(self, requests_another: bool = False) -> bytes:
        """Return a KeyUpdate, which may request one of the server, and encrypt later records with the next key."""
        record = self.record(KEY_UPDATE + bytes([requests_another]), HANDSHAKE)
        self._secret = self._derive(b"traffic upd", len(self._secret))
        self._use()
        return record

    def record(self, content: bytes, kind: int = APPLICATION_DATA) -> bytes:
        """Return a record."""
        plaintext = content + bytes([kind])
        header = b"\x17\x03\x03" + (len(plaintext) + TAG_BYTES).to_bytes(2)
        nonce = (int.from_bytes(self._iv) ^ self._number).to_bytes(len(self._iv))
        self._number += 1
        return header + self._cipher.encrypt(nonce, plaintext, header)

    def _use(self) -> None:
        self._cipher = AESGCM(self._derive(b"key", self._key_bytes))
        self._iv = self._derive(b"iv", 12)
        self._number = 0

    def _derive(self, label: bytes, size: int) -> bytes:
        """HKDF-Expand-Label for at most one block."""
        name = b"tls13 " + label
        info = size.to_bytes(2) + bytes([len(name)]) + name + b"\x00"
        return hmac.digest(self._secret, info + b"\x01", self._hash)[:size]


def connect(connection: socket, context: ssl.SSLContext) -> KeyChanges:
    """Complete a handshake on a blocking connection, through which the caller then sends records itself."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with TemporaryDirectory() as directory:
        keys = Path(directory, "keys")
        context.keylog_filename = str(keys)
        stream = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                stream.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        connection.sendall(outgoing.read())
        (secret,) = (
            line.split()[2]
            for line in keys.read_text().splitlines()
            if line.startswith("CLIENT_TRAFFIC_SECRET_0 ")
        )
    context.keylog_filename = None
    cipher = stream.cipher()
    assert cipher is not None
    return KeyChanges(cipher[0], bytes.fromhex(secret))
