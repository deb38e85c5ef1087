"""Replicas keep acknowledged records through delays, losses, fencing and restarts, by any seed."""

from __future__ import annotations

import pytest

from quorumd.controller.partition import NO_LEADER
from tests.support.broker.replica_cluster import BROKERS, ReplicaCluster

SEEDS = 40
STEPS = 2000


@pytest.mark.parametrize("seed", range(SEEDS))
def test_acknowledged_records_survive(seed: int) -> None:
    cluster = ReplicaCluster(seed)
    for _ in range(STEPS):
        cluster.step()
    assert cluster.acknowledged


@pytest.mark.parametrize("seed", range(SEEDS // 4))
def test_replicas_converge_without_faults(seed: int) -> None:
    """Every replica is in the ISR and has the leader's log, and its high watermark."""
    cluster = ReplicaCluster(seed)
    for _ in range(STEPS):
        cluster.step()
    for broker in cluster.brokers.values():
        cluster.unfence(broker)
    for _ in range(200):
        cluster.now_ms += 1.0
        for broker in cluster.brokers.values():
            broker.apply_metadata()
            cluster.handle_proposal(broker)
            cluster.fetch(broker)
            cluster.deliver_fetch(broker)
            cluster.deliver_response(broker)
        cluster.check()
    partition = cluster.metadata.partition
    assert partition.leader != NO_LEADER
    assert set(partition.isr) == set(BROKERS)
    leader = cluster.brokers[partition.leader]
    for broker in cluster.brokers.values():
        assert broker.log.records == leader.log.records
        assert broker.replica.high_watermark == leader.log.end_offset
