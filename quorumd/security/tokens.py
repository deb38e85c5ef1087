"""The secret part of a delegation token (KIP-48)."""

from __future__ import annotations

import hmac


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """The HMAC of a token, which only nodes with `delegation.token.secret.key` can compute."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")
