"""Looks up SCRAM credentials and delegation tokens in the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.security.credentials import DelegationToken, ScramCredential
from quorumd.security.sasl.scram import MECHANISMS
from quorumd.security.tokens import token_hmac

_TYPES: Final = {mechanism.name: mechanism.type for mechanism in MECHANISMS}


class ImageCredentials:
    """The `CredentialStore` of a node. `image()` returns the current image. Without `token_secret_key` there are no
    tokens."""

    def __init__(self, image: Callable[[], ClusterImage], token_secret_key: str | None) -> None:
        self._image = image
        self._secret_key = token_secret_key

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        """See `CredentialStore`."""
        return self._image().security.scram.get((_TYPES.get(mechanism, 0), user))

    def token(self, token_id: str) -> DelegationToken | None:
        """See `CredentialStore`. A token expires at the earlier of its two limits."""
        token = self._image().security.tokens.get(token_id)
        if token is None or self._secret_key is None:
            return None
        expires_ms = min(token.expires_ms, token.max_ms)
        return DelegationToken(token_id, token.owner, token_hmac(self._secret_key, token_id), expires_ms)
