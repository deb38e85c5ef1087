"""The HMACs of delegation tokens."""

from __future__ import annotations

import pytest

from quorumd.security import tokens
from quorumd.security.tokens import TokenHmacs, token_hmac


def test_token_is_found_by_its_hmac_while_it_exists() -> None:
    hmacs = TokenHmacs("secret")
    hmac = token_hmac("secret", "a")
    assert hmacs.hmac_of("a") == hmac
    assert hmacs.find({"a", "b"}, hmac) == "a"
    assert hmacs.find({"a", "b"}, token_hmac("secret", "b")) == "b"
    assert hmacs.find({"a", "b"}, token_hmac("other", "a")) is None
    assert hmacs.find({"b"}, hmac) is None


def test_each_hmac_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To find one among 10,000 tokens took 40 ms."""
    computed: list[str] = []

    def compute(secret_key: str, token_id: str) -> bytes:
        computed.append(token_id)
        return token_hmac(secret_key, token_id)

    monkeypatch.setattr(tokens, "token_hmac", compute)
    hmacs = TokenHmacs("secret")
    for _ in range(3):
        assert hmacs.find(["a", "b"], b"unknown") is None
    assert computed == ["a", "b"]


def test_hmacs_of_removed_tokens_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_REMOVED", 1)
    hmacs = TokenHmacs("secret")
    hmacs.find("abcd", b"unknown")
    hmacs.find("e", b"unknown")
    assert hmacs._hmacs.keys() == {"e"}
    assert len(hmacs._ids) == 1
