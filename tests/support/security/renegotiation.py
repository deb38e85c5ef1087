"""A client of TLS 1.2 that begins further handshakes on its connection, which the `ssl` module cannot (RFC 5246)."""

from __future__ import annotations

import hmac
import ssl
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CIPHER = "ECDHE-ECDSA-AES128-GCM-SHA256"
HASH, KEY_BYTES, SALT_BYTES, TAG_BYTES = "sha256", 16, 4, 16
ALERT, HANDSHAKE, APPLICATION_DATA = 21, 22, 23
CLIENT_HELLO = b"\x01\x00\x00\x29\x03\x03" + bytes(32) + b"\x00\x00\x02\xc0\x2b\x01\x00"
"""A message without extensions; a server that renegotiates reads more of it than its header."""
HELLO_REQUEST = bytes(4)
"""The message with which a server requests another handshake."""
NO_RENEGOTIATION = b"\x01\x64"
"""The warning with which either end refuses to renegotiate."""
_RANDOM_AT = 5 + 4 + 2
"""The position of the random bytes in the first record of a server."""


class Renegotiation:
    """Encrypts the records of a client whose handshake is complete and that has sent nothing since, and decrypts
    those of the server."""

    def __init__(self, master: bytes, client_random: bytes, server_random: bytes) -> None:
        block = _expand(
            master, b"key expansion" + server_random + client_random, 2 * (KEY_BYTES + SALT_BYTES)
        )
        own, other, salts = block[:KEY_BYTES], block[KEY_BYTES : 2 * KEY_BYTES], block[2 * KEY_BYTES :]
        self._own, self._other = AESGCM(own), AESGCM(other)
        self._own_salt, self._other_salt = salts[:SALT_BYTES], salts[SALT_BYTES:]
        # The Finished messages had number 0.
        self._sent = self._received = 1

    @classmethod
    def of_server(cls, master: bytes, client_random: bytes, server_random: bytes) -> Renegotiation:
        """Return the same for the server of a connection."""
        found = cls(master, client_random, server_random)
        found._own, found._other = found._other, found._own
        found._own_salt, found._other_salt = found._other_salt, found._own_salt
        return found

    def hello(self) -> bytes:
        """Return a record that begins another handshake."""
        return self.record(CLIENT_HELLO, HANDSHAKE)

    def record(self, content: bytes, kind: int = APPLICATION_DATA) -> bytes:
        """Return a record."""
        number = self._sent.to_bytes(8)
        self._sent += 1
        header = bytes([kind]) + b"\x03\x03"
        sealed = self._own.encrypt(
            self._own_salt + number, content, number + header + len(content).to_bytes(2)
        )
        return header + (8 + len(sealed)).to_bytes(2) + number + sealed

    def read(self, record: bytes) -> tuple[int, bytes]:
        """Return the kind and the content of a record of the server."""
        number = self._received.to_bytes(8)
        self._received += 1
        nonce, sealed = record[5:13], record[13:]
        size = (len(sealed) - TAG_BYTES).to_bytes(2)
        return record[0], self._other.decrypt(self._other_salt + nonce, sealed, number + record[:3] + size)


def _expand(secret: bytes, seed: bytes, size: int) -> bytes:
    """The pseudorandom function of TLS 1.2."""
    found, last = b"", seed
    while len(found) < size:
        last = hmac.digest(secret, last, HASH)
        found += hmac.digest(secret, last + seed, HASH)
    return found[:size]


def connect(connection: socket, context: ssl.SSLContext) -> Renegotiation:
    """Complete a handshake on a blocking connection, through which the caller then sends records itself."""
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHER)
    context.options |= ssl.OP_NO_TICKET
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_random = b""
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
                data = connection.recv(65536)
                server_random = server_random or data[_RANDOM_AT : _RANDOM_AT + 32]
                incoming.write(data)
        (_, client_random, master) = keys.read_text().splitlines()[-1].split()
    context.keylog_filename = None
    return Renegotiation(bytes.fromhex(master), bytes.fromhex(client_random), server_random)
