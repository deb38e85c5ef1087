"""Verifies JSON web tokens with the keys of an identity provider (RFC 7517, RFC 7519).

Audience and issuer must be configured, tokens must expire, and unsigned tokens are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from quorumd.errors import AuthenticationFailed, ConfigError
from quorumd.security.sasl.exchange import Proof, user

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""Asymmetric signatures only: the keys that a node has can verify tokens but not sign them."""
MAX_TIME_S: Final = 1 << 40
MAX_KEYS: Final = 1000
"""Identity providers have a few. A thousand take 20 ms on a thread that shares the GIL with the event thread."""
MAX_TOKEN_LENGTH: Final = 64 * 1024
"""The header is parsed before the signature is verified: half a megabyte of it takes 50 ms."""
MISSING_PACKAGE: Final = "needs the packages PyJWT and cryptography: pip install 'quorumd[security]'"


class JwtRules(NamedTuple):
    """The claims that a token must have."""

    audience: tuple[str, ...]
    issuer: str
    principal_claim: str = "sub"
    leeway_s: int = 30


class JwtValidator:
    """Verifies tokens with the keys that `load_keys` loaded last.

    `on_unknown_key` is called when a token names an unknown key, so that the keys are read again.
    """

    def __init__(
        self, rules: JwtRules, now_ms: Callable[[], int], on_unknown_key: Callable[[], None] = lambda: None
    ) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._on_unknown_key = on_unknown_key
        self._keys: Mapping[str, Any] = {}
        self._document: str | None = None

    def load_keys(self, document: str) -> None:
        """Replace the keys by the keys of a JSON web key set. Raises ValueError."""
        if document != self._document:
            self._keys = parse_key_set(document)
            self._document = document

    def validate(self, token: str) -> Proof:
        """See `TokenValidator`."""
        if len(token) > MAX_TOKEN_LENGTH:
            raise AuthenticationFailed(f"the token is longer than {MAX_TOKEN_LENGTH} bytes")
        jwt = _jwt()
        try:
            header = jwt.get_unverified_header(token)
            key = self._key(header)
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[name for name in ALGORITHMS if name == header.get("alg")],
                audience=list(self._rules.audience),
                issuer=self._rules.issuer,
                options={
                    "require": ["exp", "iss", "aud", self._rules.principal_claim],
                    # Checked below, by the clock of the node.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except Exception as error:
            # Not only PyJWTError: a token that names a key of another kind than its algorithm is a TypeError.
            raise AuthenticationFailed(f"the token is invalid: {error}") from None
        name = claims[self._rules.principal_claim]
        if not isinstance(name, str) or not name:
            raise AuthenticationFailed(f"the claim {self._rules.principal_claim} is not a non-empty string")
        return Proof(user(name), self._check_times(claims))

    def _key(self, header: Mapping[str, Any]) -> Any:
        if header.get("alg") not in ALGORITHMS:
            raise AuthenticationFailed(f"tokens must be signed with one of {', '.join(ALGORITHMS)}")
        key_id = header.get("kid")
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        key = self._keys.get(str(key_id))
        if key is None:
            self._on_unknown_key()
            raise AuthenticationFailed("the key of the token is not known")
        return key

    def _check_times(self, claims: Mapping[str, Any]) -> int:
        """Return when the token expires, Unix time in milliseconds."""
        now_s, leeway_s = self._now_ms() / 1000, self._rules.leeway_s
        expires_s, begins_s = claims["exp"], claims.get("nbf", 0)
        # JSON numbers may be NaN, for which every comparison is false, or arbitrarily large.
        if not all(
            isinstance(each, int | float) and abs(each) < MAX_TIME_S for each in (expires_s, begins_s)
        ):
            raise AuthenticationFailed("the exp or nbf claim of the token is not a time")
        if expires_s + leeway_s <= now_s:
            raise AuthenticationFailed("the token has expired")
        if begins_s - leeway_s > now_s:
            raise AuthenticationFailed("the token is not valid yet")
        return int(expires_s * 1000)


def parse_key_set(document: str) -> dict[str, Any]:
    """The signing keys of a JSON web key set by their ids. Raises ValueError.

    As RFC 7517 recommends, keys of kinds that are not known are ignored.
    """
    jwt = _jwt()
    found = {}
    try:
        keys = json.loads(document)["keys"]
        if len(keys) > MAX_KEYS:
            raise ValueError(f"more than {MAX_KEYS} keys")
        for each in keys:
            if each.get("use", "sig") == "sig" and each.get("kty") != "oct":
                with suppress(jwt.PyJWTError):
                    found[str(each.get("kid", ""))] = jwt.PyJWK(each)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a JSON web key set: {error}") from None
    if keys and not found:
        raise ValueError("a JSON web key set without a key that can verify tokens")
    return found


def _jwt() -> Any:
    """Import PyJWT when it is first needed: only nodes with OAUTHBEARER require it."""
    try:
        import jwt
    except ImportError:
        raise ConfigError(f"OAUTHBEARER {MISSING_PACKAGE}") from None
    return jwt
