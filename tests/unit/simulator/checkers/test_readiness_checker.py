"""Readiness reports of nodes, and observations that contradict them."""

from dataclasses import replace

import pytest

from quorumd.ids import KafkaUuid, ReplicaKey
from quorumd.simulator.checkers import InvariantViolation, Observation, ReadyClaim, ReadyNodesServe

DISK, OTHER_DISK = KafkaUuid(b"a" * 16), KafkaUuid(b"b" * 16)
KEY = ReplicaKey(1, DISK)
VOTERS = (KEY, ReplicaKey(2), ReplicaKey(3))
CLAIM = ReadyClaim(
    KEY,
    incarnation=1,
    now_ms=10_000.0,
    epoch=4,
    leader_id=2,
    contact_age_ms=300.0,
    applied_offset=100,
    high_watermark=-1,
    max_lag=20,
    fetch_timeout_ms=1000.0,
    fetch_wait_ms=500.0,
)


def checker_at(now_ms: float, fetches: dict[int, float], high_watermark: int = 100) -> ReadyNodesServe:
    checker = ReadyNodesServe((1, 2, 3))
    checker.observed(Observation(2, 1, 4, 2, True, high_watermark, now_ms=now_ms))
    checker.leads(2, 4, [*fetches.values(), 0.0], now_ms)
    return checker


def test_node_with_leader_state_and_vote_is_accepted() -> None:
    checker = checker_at(9900.0, {1: 10.0, 3: 5000.0})
    checker.claimed(CLAIM, VOTERS)
    checker.claimed(replace(CLAIM, key=ReplicaKey(7, OTHER_DISK)), VOTERS)
    checker.claimed(replace(CLAIM, applied_offset=80), VOTERS)


@pytest.mark.parametrize(
    ("claim", "seen"),
    [
        (replace(CLAIM, leader_id=-1), "has no leader"),
        (replace(CLAIM, contact_age_ms=1900.0), "has had no contact with it for 1900 ms"),
        (replace(CLAIM, now_ms=14_000.0), "no majority has followed for 4110 ms"),
        (replace(CLAIM, leader_id=3), "no majority has followed for inf ms"),
        (replace(CLAIM, key=ReplicaKey(2), contact_age_ms=0.0, now_ms=11_300.0), "no majority has followed"),
    ],
)
def test_claims_that_the_cluster_contradicts(claim: ReadyClaim, seen: str) -> None:
    checker = checker_at(9900.0, {1: 10.0, 3: 5000.0})
    with pytest.raises(InvariantViolation, match=seen):
        checker.claimed(claim, VOTERS)


def test_node_that_is_ready_has_applied_what_was_committed_long_ago() -> None:
    checker = checker_at(9900.0, {1: 10.0, 3: 5000.0})
    checker.claimed(replace(CLAIM, applied_offset=79), VOTERS)
    checker.leads(2, 4, [0.0, 0.0, 900.0], 14_000.0)
    checker.claimed(replace(CLAIM, now_ms=14_000.0, applied_offset=80), VOTERS)
    with pytest.raises(InvariantViolation, match=r"\b79 of 100\b"):
        checker.claimed(replace(CLAIM, now_ms=14_000.0, applied_offset=79), VOTERS)


def test_node_that_is_ready_has_applied_what_it_knows_to_be_committed() -> None:
    checker = checker_at(9900.0, {1: 10.0, 3: 5000.0})
    checker.claimed(replace(CLAIM, high_watermark=120), VOTERS)
    with pytest.raises(InvariantViolation, match=r"\b100 of 121\b"):
        checker.claimed(replace(CLAIM, high_watermark=121), VOTERS)


def test_node_without_the_vote_of_its_id_has_time_to_learn_it() -> None:
    voters = (ReplicaKey(1, OTHER_DISK), ReplicaKey(2), ReplicaKey(3))
    checker = checker_at(9900.0, {1: 10.0})
    checker.claimed(CLAIM, voters)
    checker.claimed(replace(CLAIM, now_ms=12_000.0), voters)
    checker.leads(2, 4, [0.0, 0.0, 900.0], 14_000.0)
    with pytest.raises(InvariantViolation, match="has no vote"):
        checker.claimed(replace(CLAIM, now_ms=14_000.0), voters)
    checker.claimed(replace(CLAIM, now_ms=14_000.0), ())
    checker.claimed(replace(CLAIM, now_ms=14_000.0), voters)
