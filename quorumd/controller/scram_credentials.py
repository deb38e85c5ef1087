"""SCRAM credentials in the log (RFC 5802, KIP-84): keys derived from a password, never the password itself.

Command-line syntax, as for `kafka-storage format --add-scram`:

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Final

from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.security.sasl.scram import (
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    Mechanism,
    salted_password,
    scram_credential,
)

_ARGUMENT: Final = re.compile(r"\s*([^=]*)=\[(.*)\]\s*", re.DOTALL)
_PARTS: Final = ("name", "salt", "iterations", "password", "saltedpassword")


def credential(
    mechanism: Mechanism, name: str, salt: bytes, salted: bytes, iterations: int
) -> UserScramCredentialRecord:
    """Build the record of a user's credential. `salted`: the SaltedPassword of RFC 5802."""
    verifier = scram_credential(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(
        name, mechanism.type, salt, verifier.stored_key, verifier.server_key, iterations
    )


def parse_credential(text: str, new_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    """Parse a credential; `new_salt()` provides the salt if it has none. Raises ValueError, whose message does not
    contain the password."""
    found = _ARGUMENT.fullmatch(text)
    if found is None:
        raise ValueError(
            "expected MECHANISM=[name=...,password=...], for example SCRAM-SHA-256=[name=alice,...]"
        )
    mechanism = next((each for each in MECHANISMS if each.name == found[1]), None)
    if mechanism is None:
        names = " or ".join(each.name for each in MECHANISMS)
        raise ValueError(f"mechanism {found[1]!r} is not supported: expected {names}")
    parts = _parse_parts(found[2])
    name, password, salted_text = (parts.get(key) for key in ("name", "password", "saltedpassword"))
    if not name:
        raise ValueError("name is missing")
    if (password is None) == (salted_text is None):
        raise ValueError("expected either password or saltedpassword")
    if salted_text is not None and "salt" not in parts:
        raise ValueError("salt is missing: saltedpassword requires it")
    salt = _decode_base64("salt", parts["salt"]) if "salt" in parts else new_salt()
    iterations = _parse_iterations(parts.get("iterations", str(MIN_ITERATIONS)))
    if salted_text is not None:
        salted = _decode_base64("saltedpassword", salted_text)
    else:
        salted = salted_password(mechanism, password or "", salt, iterations)
    return credential(mechanism, name, salt, salted, iterations)


def _parse_parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in _PARTS or key in parts:
            problem = (
                f"{key!r} has no '='" if not equals else f"duplicate {key!r}" if key in parts else repr(key)
            )
            raise ValueError(f"{problem}; expected each of {', '.join(_PARTS)} at most once, as NAME=VALUE")
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = value[1:-1]
        parts[key] = value
    return parts


def _parse_iterations(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS):
        raise ValueError(
            f"iterations={text}: expected a whole number from {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    return int(text)


def _decode_base64(key: str, text: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{key}: expected base64") from None
