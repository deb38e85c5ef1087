"""OAUTHBEARER with tokens that the test signs itself."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from quorumd.errors import AuthenticationFailed
from quorumd.security.sasl import jwt_validator
from quorumd.security.sasl.exchange import Proof
from quorumd.security.sasl.jwt_validator import (
    ALGORITHMS,
    MAX_KEYS,
    MAX_TOKEN_LENGTH,
    JwtRules,
    JwtValidator,
    parse_key_set,
)
from quorumd.security.sasl.oauth_bearer import OAuthBearerClient, OAuthBearerServer

NOW_S = 1_000_000
RULES = JwtRules(("kafka",), "https://issuer")
CLAIMS: dict[str, Any] = {"sub": "alice", "aud": "kafka", "iss": "https://issuer", "exp": NOW_S + 60}


@cache
def key(name: str) -> ec.EllipticCurvePrivateKey:
    del name
    return ec.generate_private_key(ec.SECP256R1())


def key_set(*names: str) -> str:
    keys = [
        jwt.algorithms.ECAlgorithm.to_jwk(key(name).public_key(), as_dict=True) | {"kid": name}
        for name in names
    ]
    return json.dumps({"keys": keys})


def token(claims: dict[str, Any] | None = None, *, signer: str = "one", **header: Any) -> str:
    return jwt.encode(
        CLAIMS | (claims or {}), key(signer), algorithm="ES256", headers={"kid": signer} | header
    )


def validator(**unknown: Any) -> JwtValidator:
    found = JwtValidator(RULES, lambda: NOW_S * 1000, **unknown)
    found.load_keys(key_set("one", "two"))
    return found


def test_signed_token_proves_its_subject() -> None:
    server, client = OAuthBearerServer(validator()), OAuthBearerClient(lambda: token(signer="two"))
    assert client.evaluate(server.evaluate(client.evaluate(b""))) == b""
    assert client.is_complete
    assert server.proof == Proof("User:alice", (NOW_S + 60) * 1000)


@pytest.mark.parametrize(
    "claims",
    [
        *(
            {"aud": "other"},
            {"iss": "other"},
            {"exp": NOW_S - 31},
            {"nbf": NOW_S + 31},
            {"sub": ""},
            {"sub": None},
        ),
        *({"exp": float("nan")}, {"exp": float("inf")}, {"nbf": float("nan")}, {"exp": 10**400}),
        *({"exp": "x"}, {"aud": None}, {"iss": None}, {"exp": None}),
    ],
)
def test_token_with_wrong_claims_is_refused(claims: dict[str, Any]) -> None:
    kept = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    bad = jwt.encode(kept, key("one"), algorithm="ES256", headers={"kid": "one"})
    with pytest.raises(AuthenticationFailed):
        validator().validate(bad)


@pytest.mark.parametrize(
    ("padding", "is_accepted"), [(MAX_TOKEN_LENGTH // 2, True), (MAX_TOKEN_LENGTH, False)]
)
def test_long_token_is_refused_before_it_is_parsed(padding: int, is_accepted: bool) -> None:
    signed = token({"groups": "x" * padding})
    if is_accepted:
        assert validator().validate(signed).principal == "User:alice"
    else:
        with pytest.raises(AuthenticationFailed):
            validator().validate(signed)


@pytest.mark.parametrize("claims", [{"exp": NOW_S - 29}, {"nbf": NOW_S + 29}])
def test_clocks_may_differ_by_the_leeway(claims: dict[str, Any]) -> None:
    assert validator().validate(token(claims)).principal == "User:alice"


def test_symmetric_keys_of_a_key_set_are_not_used() -> None:
    keys = json.loads(key_set("one"))["keys"]
    keys.append({"kty": "oct", "kid": "shared", "k": "AAAA"})
    assert list(parse_key_set(json.dumps({"keys": keys}))) == ["one"]


def test_unsigned_token_is_refused() -> None:
    unsigned = jwt.encode(CLAIMS, None, algorithm="none", headers={"kid": "one"})
    with pytest.raises(AuthenticationFailed):
        validator().validate(unsigned)


def test_token_signed_with_the_public_key_as_a_secret_is_refused() -> None:
    forged = jwt.encode(
        CLAIMS, "a secret of thirty-two bytes or more", algorithm="HS256", headers={"kid": "one"}
    )
    with pytest.raises(AuthenticationFailed):
        validator().validate(forged)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["EC", "RSA", "OKP"])
def test_forged_token_is_refused_whatever_the_kind_of_its_key(algorithm: str, kind: str) -> None:
    """Without another exception, which would stop the node: every client knows the ids of the keys."""
    found = JwtValidator(RULES, lambda: NOW_S * 1000)
    found.load_keys(json.dumps({"keys": [public_key(kind)]}))
    header = b64encode(json.dumps({"alg": algorithm, "kid": kind}).encode(), b"-_").rstrip(b"=").decode()
    for signature in ("", "AAAA", "A" * 86, "A" * 342):
        with pytest.raises(AuthenticationFailed):
            found.validate(f"{header}.e30.{signature}")


def public_key(kind: str) -> dict[str, Any]:
    if kind == "EC":
        made = jwt.algorithms.ECAlgorithm.to_jwk(key("one").public_key(), as_dict=True)
    elif kind == "RSA":
        private = rsa.generate_private_key(65537, 2048)
        made = jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
    else:
        edwards = ed25519.Ed25519PrivateKey.generate()
        made = jwt.algorithms.OKPAlgorithm.to_jwk(edwards.public_key(), as_dict=True)
    return made | {"kid": kind}


def test_token_of_another_key_is_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        validator().validate(token(signer="stranger", kid="one"))


def test_unknown_key_has_the_keys_read_again() -> None:
    calls: list[str] = []
    found = validator(on_unknown_key=lambda: calls.append("read"))
    with pytest.raises(AuthenticationFailed):
        found.validate(token(signer="three"))
    assert calls == ["read"]
    found.load_keys(key_set("three"))
    assert found.validate(token(signer="three")).principal == "User:alice"


def test_client_learns_of_an_invalid_token_before_the_exchange_fails() -> None:
    server, client = OAuthBearerServer(validator()), OAuthBearerClient(lambda: token({"aud": "other"}))
    response = server.evaluate(client.evaluate(b""))
    assert json.loads(response) == {"status": "invalid_token"}
    with pytest.raises(AuthenticationFailed):
        server.evaluate(client.evaluate(response))
    assert not client.is_complete
    assert server.proof is None


@pytest.mark.parametrize(
    "message",
    [b"", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"\xff", b"y,,\x01auth=Bearer x\x01\x01"],
)
def test_malformed_message_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        OAuthBearerServer(validator()).evaluate(message)


def test_message_with_many_pairs_is_refused_before_it_is_parsed() -> None:
    start, end = b"n,,\x01auth=Bearer x\x01", b"\x01"
    server = OAuthBearerServer(validator())
    with pytest.raises(AuthenticationFailed, match="more than 32 pairs"):
        server.evaluate(start + b"a=b\x01" * 32 + end)
    assert server.evaluate(start + b"a=b\x01" * 31 + end) == b'{"status":"invalid_token"}'


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 40_000,
        b'{"a":' * 9_000,
        b'{"alg":"ES256","kid":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"alg":' + b"9" * 40_000 + b"}",
        b'{"alg":["ES256"],"kid":{"one":1}}',
        b'{"alg":"ES256","b64":false,"crit":["b64"]}',
    ],
    ids=["deep lists", "deep objects", "deep key id", "long number", "wrong types", "detached"],
)
def test_token_with_a_hostile_header_is_refused(header: bytes) -> None:
    """Without an exception of the JSON parser, which would end the callback that received the token."""
    encoded = b64encode(header, b"-_").rstrip(b"=").decode()
    with pytest.raises(AuthenticationFailed):
        validator().validate(f"{encoded}.e30.AAAA")


def test_other_authorization_id_is_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        OAuthBearerServer(validator()).evaluate(f"n,a=bob,\x01auth=Bearer {token()}\x01\x01".encode())


def test_keys_of_unknown_kinds_are_ignored() -> None:
    """Identity providers publish keys for other purposes too (RFC 7517, 5)."""
    keys = [{"kty": "OKP", "crv": "X25519", "kid": "x"}, {"kty": "new", "kid": "y"}, {"kid": "z"}]
    keys += json.loads(key_set("one"))["keys"]
    assert list(parse_key_set(json.dumps({"keys": keys}))) == ["one"]


def test_number_of_keys_is_bounded() -> None:
    (one,) = json.loads(key_set("one"))["keys"]
    with pytest.raises(ValueError, match="more than"):
        parse_key_set(json.dumps({"keys": [one] * (MAX_KEYS + 1)}))


def test_unchanged_key_set_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients with unknown keys have it read again every few seconds."""
    found = validator()
    monkeypatch.setattr(jwt_validator, "parse_key_set", lambda document: {})
    found.load_keys(key_set("one", "two"))
    assert found.validate(token()).principal == "User:alice"
    found.load_keys(key_set("two"))
    with pytest.raises(AuthenticationFailed):
        found.validate(token())


@pytest.mark.parametrize(
    "document",
    [*("", "{}", '{"keys": 1}', '{"keys": [{"kty": "EC"}]}', '{"keys": [1]}'), '{"keys": ' + "[" * 100_000],
)
def test_malformed_key_set_is_rejected(document: str) -> None:
    with pytest.raises(ValueError):
        JwtValidator(RULES, lambda: 0).load_keys(document)
