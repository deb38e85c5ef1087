"""The secret part of a delegation token (KIP-48)."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from typing import Final

MAX_REMOVED: Final = 1000
"""HMACs of removed tokens that are kept, besides as many as there are tokens."""


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """The HMAC of a token, which only nodes with `delegation.token.secret.key` can compute."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


class TokenHmacs:
    """The HMACs of tokens, each computed once, so that a token can be found by its HMAC."""

    def __init__(self, secret_key: str) -> None:
        self._secret_key = secret_key
        self._ids: dict[bytes, str] = {}
        self._hmacs: dict[str, bytes] = {}

    def hmac_of(self, token_id: str) -> bytes:
        """The HMAC of a token."""
        known = self._hmacs.get(token_id)
        if known is None:
            known = self._hmacs[token_id] = token_hmac(self._secret_key, token_id)
            self._ids[known] = token_id
        return known

    def find(self, token_ids: Collection[str], hmac: bytes) -> str | None:
        """The id among these that has this HMAC."""
        if len(self._hmacs) > 2 * len(token_ids) + MAX_REMOVED:
            self._ids.clear()
            self._hmacs.clear()
        if hmac not in self._ids:
            for token_id in token_ids:
                self.hmac_of(token_id)
        found = self._ids.get(hmac)
        return found if found is not None and found in token_ids else None
