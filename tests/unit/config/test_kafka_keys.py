"""Keys of Kafka: each is in one class, whatever listener it is for."""

from __future__ import annotations

import pytest

from quorumd.config import documentation
from quorumd.config.kafka_keys import entries, find


def test_no_key_is_a_setting_of_quorumd_as_well() -> None:
    keys, prefixes = entries()
    settings = {key for row in documentation() for key in row.keys}
    assert not settings & keys.keys()
    assert not [key for key in settings for prefix in prefixes if key.startswith(prefix)]


def test_every_entry_says_why() -> None:
    keys, prefixes = entries()
    assert len(keys) > 250
    assert all(entry.reason for entry in (*keys.values(), *prefixes.values()))


@pytest.mark.parametrize("key", ["sasl.jaas.config", "listener.name.a.plain.sasl.jaas.config", "super.users"])
def test_what_protects_a_cluster_is_refused(key: str) -> None:
    entry = find(key)
    assert entry is not None
    assert entry.refuses("x")
    assert not entry.refuses(" ")


@pytest.mark.parametrize("key", ["num.io.threads", "listener.name.a.ssl.key.password", "confluent.x.y"])
def test_what_has_no_effect_is_accepted(key: str) -> None:
    entry = find(key)
    assert entry is not None
    assert not entry.refuses("x")


@pytest.mark.parametrize("key", ["num.io.thread", "listener.name.a.b", "listener.name.", "node.id"])
def test_others_are_unknown(key: str) -> None:
    assert find(key) is None
