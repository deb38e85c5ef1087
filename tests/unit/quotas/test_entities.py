"""Which quota applies to a client."""

from __future__ import annotations

import pytest

from quorumd.quotas.entities import CONNECTION_RATE, PRODUCER_BYTE_RATE, Quota, connection_rate, quota_of

KEY = PRODUCER_BYTE_RATE
PRECEDENCE = [
    ((("client-id", "c"), ("user", "u")), "u", "c"),
    ((("client-id", None), ("user", "u")), "u", "c"),
    ((("user", "u"),), "u", ""),
    ((("client-id", "c"), ("user", None)), "u", "c"),
    ((("client-id", None), ("user", None)), "u", "c"),
    ((("user", None),), "u", ""),
    ((("client-id", "c"),), "", "c"),
    ((("client-id", None),), "", "c"),
]
"""Kafka's documentation, "Quota Configuration": entities from the most specific on, and whose usage counts."""


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_most_specific_quota_applies(first: int) -> None:
    quotas = {
        entity: {KEY: float(limit)} for limit, (entity, _, _) in enumerate(PRECEDENCE) if limit >= first
    }
    _, user, client_id = PRECEDENCE[first]
    assert quota_of(quotas, KEY, "u", "c") == Quota(first, user, client_id)


def test_quotas_of_others_do_not_apply() -> None:
    quotas = {(("user", "u"),): {KEY: 1.0}, (("client-id", "c"),): {"request_percentage": 1.0}}
    assert quota_of(quotas, KEY, "other", "c") is None


def test_client_without_id_has_quotas_of_its_user() -> None:
    quotas = {entity: {KEY: float(limit)} for limit, (entity, _, _) in enumerate(PRECEDENCE)}
    assert quota_of(quotas, KEY, "u", "") == Quota(2, "u", "")
    assert quota_of(quotas, KEY, "other", "") == Quota(5, "other", "")
    del quotas[("user", None),]
    assert quota_of(quotas, KEY, "other", "") is None


def test_address_has_its_own_quota_or_the_default() -> None:
    quotas = {
        (("ip", "192.0.2.7"),): {CONNECTION_RATE: 7.0},
        (("ip", "2001:db8::1"),): {CONNECTION_RATE: 6.0},
        (("ip", None),): {CONNECTION_RATE: 9.0},
    }
    assert connection_rate(quotas, "192.0.2.7") == 7
    assert connection_rate(quotas, "2001:db8:0:0:0:0:0:1") == 6
    assert connection_rate(quotas, "192.0.2.8") == 9
    assert connection_rate(quotas, "no address") == 9
    assert connection_rate({}, "192.0.2.7") is None
