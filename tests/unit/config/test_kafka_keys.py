"""Each key of Kafka is in one class, whatever listener it is for."""

from __future__ import annotations

import pytest

from quorumd.config import documentation
from quorumd.config.kafka_keys import entries, find


def test_kafka_keys_are_not_quorumd_settings() -> None:
    keys, prefixes = entries()
    settings = {key for row in documentation() for key in row.keys}
    assert not settings & keys.keys()
    assert not [
        key for key in settings for prefix in prefixes if key.startswith(prefix) and prefix != "sasl."
    ]


def test_every_entry_has_a_reason() -> None:
    keys, prefixes = entries()
    assert len(keys) > 200
    assert all(entry.reason for entry in (*keys.values(), *prefixes.values()))


@pytest.mark.parametrize(
    "key", ["sasl.jaas.config", "listener.name.a.plain.sasl.jaas.config", "security.providers"]
)
def test_protective_keys_are_rejected(key: str) -> None:
    entry = find(key)
    assert entry is not None
    assert entry.refuses("x")
    assert not entry.refuses(" ")


@pytest.mark.parametrize("key", ["num.io.threads", "listener.name.a.ssl.allow.dn.changes", "confluent.x.y"])
def test_keys_without_effect_are_accepted(key: str) -> None:
    entry = find(key)
    assert entry is not None
    assert not entry.refuses("x")


@pytest.mark.parametrize("key", ["num.io.thread", "listener.name.a.b", "listener.name.", "node.id"])
def test_other_keys_are_unknown(key: str) -> None:
    assert find(key) is None
