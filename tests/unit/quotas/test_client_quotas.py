"""The usage of all clients of a node."""

from __future__ import annotations

from math import inf

from quorumd.quotas import client_quotas as module
from quorumd.quotas.client_quotas import NO_QUOTAS, ClientQuotas, QuotaSettings
from quorumd.quotas.entities import CONNECTION_RATE, MUTATION_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE

ALICE = "User:alice"
LIMITS: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {
    (("user", "alice"),): {PRODUCER_BYTE_RATE: 100.0, REQUEST_PERCENTAGE: 10.0, MUTATION_RATE: 2.0},
    (("client-id", None),): {PRODUCER_BYTE_RATE: 50.0},
    (("ip", None),): {CONNECTION_RATE: 1.0},
}


def quotas() -> ClientQuotas:
    return ClientQuotas(QuotaSettings(), lambda: LIMITS)


def test_user_shares_one_quota_among_client_ids() -> None:
    used = quotas()
    assert used.record(PRODUCER_BYTE_RATE, ALICE, "a", 1000, 0) == 0
    assert used.record(PRODUCER_BYTE_RATE, ALICE, "b", 1000, 0) == 10_000
    assert used.record(PRODUCER_BYTE_RATE, "User:bob", "b", 500, 0) == 0
    assert used.record(PRODUCER_BYTE_RATE, "User:bob", None, 1e9, 0) == 0, "no quota"
    assert used.counters.throttled == {PRODUCER_BYTE_RATE: 1}
    assert used.counters.throttle_ms == {PRODUCER_BYTE_RATE: 10_000}


def test_time_is_throttled_for_one_window_at_most() -> None:
    assert quotas().record(REQUEST_PERCENTAGE, ALICE, None, 1e6, 0) == 1000


def test_recorded_usage_is_unrecorded() -> None:
    used = quotas()
    used.record(PRODUCER_BYTE_RATE, ALICE, None, 1e6, 0)
    used.unrecord(PRODUCER_BYTE_RATE, ALICE, None, 1e6, 0)
    used.unrecord(PRODUCER_BYTE_RATE, "User:bob", None, 1e6, 0)
    assert used.record(PRODUCER_BYTE_RATE, ALICE, None, 1000, 0) == 0


def test_max_in_window_excludes_the_current_window() -> None:
    assert quotas().max_burst(PRODUCER_BYTE_RATE, ALICE, None) == 1000
    assert quotas().max_burst("consumer_byte_rate", ALICE, None) == inf


def test_strict_mutations_are_refused_once_the_bucket_is_overdrawn() -> None:
    used = quotas()
    first = used.mutations(ALICE, None, is_strict=True, now_ms=0)
    assert first is not None
    assert [first.take(20), first.take(10), first.take(1)] == [True, True, False]
    assert first.throttle_ms == 4000
    later = used.mutations(ALICE, "c", is_strict=True, now_ms=4000)
    assert later is not None
    assert later.take(1)
    assert later.throttle_ms == 0


def test_permissive_mutations_are_only_throttled() -> None:
    quota = quotas().mutations(ALICE, None, is_strict=False, now_ms=0)
    assert quota is not None
    assert [quota.take(30), quota.take(2)] == [True, True]
    assert quota.throttle_ms == 5000
    assert quotas().mutations("User:bob", None, is_strict=True, now_ms=0) is None


def test_refused_connections_do_not_count() -> None:
    used = quotas()
    assert [used.connected("192.0.2.7", 0) for _ in range(10)] == [0] * 10
    assert [used.connected("192.0.2.7", 0), used.connected("192.0.2.7", 0)] == [1000, 1000]
    assert used.connected("192.0.2.8", 0) == 0
    assert NO_QUOTAS.connected("192.0.2.7", 0) == 0


def test_clients_unused_for_longest_are_forgotten() -> None:
    used = quotas()
    for number in range(module.MAX_TRACKED + 1):
        used.record(PRODUCER_BYTE_RATE, "User:bob", str(number), 1e6, 0)
    assert len(used._rates) == module.MAX_TRACKED
    assert used.record(PRODUCER_BYTE_RATE, "User:bob", "0", 500, 0) == 0, "forgotten"
    assert used.record(PRODUCER_BYTE_RATE, "User:bob", "2", 500, 0) > 0
