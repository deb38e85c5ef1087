"""Damaged files are refused by nodes that start on them, and invalid requests by those that get them."""

from __future__ import annotations

from contextlib import nullcontext
from random import Random

import pytest

from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.faults.contradictions import CONTRADICTIONS, frame_of, log_files
from quorumd.simulator.faults.damaged_files import DamagedFile, replaced_log
from quorumd.simulator.faults.formats import RepeatedFormat
from quorumd.simulator.faults.refused_requests import _KINDS, Refused, RefusedRequest
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def test_every_damage_is_refused_and_the_node_continues_with_its_files() -> None:
    cluster, fault = make_cluster(3), DamagedFile()
    elect(cluster)
    for seed in range(40):
        run(cluster, 10_000.0, lambda: len(cluster.running()) == 3)
        run(cluster, 1000.0)
        assert fault.available(cluster)
        fault.inject(cluster, Random(seed))
    assert cluster.counters["wrong directories refused"] > 100
    run(cluster, 10_000.0)
    assert len(cluster.running()) == 3


def test_every_contradiction_is_refused() -> None:
    cluster, fault = make_cluster(1), DamagedFile()
    machine = elect(cluster)
    run(cluster, 1000.0)
    cluster.kill(machine.node_id)
    for seed in range(200):
        fault.refuse(cluster, Random(seed), machine, fault._contradiction)
    assert cluster.counters["wrong directories refused"] == 200
    cluster.boot(machine.node_id)
    assert elect(cluster) is machine


@pytest.mark.parametrize("is_in_snapshot", [True, False])
def test_log_without_the_contradiction_is_accepted(is_in_snapshot: bool) -> None:
    """The nodes refuse because of the last record: all others can be applied."""
    cluster, fault = make_cluster(1), DamagedFile()
    machine = elect(cluster)
    run(cluster, 1000.0)
    cluster.kill(machine.node_id)
    for records in CONTRADICTIONS:
        frames = [frame_of(record) for record in records]
        for kept, is_valid in ((frames, False), (frames[:-1], True)):
            if is_valid and type(records[0]) is BeginTransactionRecord:
                continue  # A snapshot cannot end within a transaction.
            log = log_files(1, kept if is_in_snapshot else [], [] if is_in_snapshot else kept)
            files = replaced_log(machine, log)
            with pytest.raises(InvariantViolation, match="refuses") if is_valid else nullcontext():
                fault.refuse(cluster, Random(1), machine, lambda random, machine, files=files: files)


def test_formatted_directories_are_left_alone() -> None:
    cluster, fault = make_cluster(3), RepeatedFormat()
    elect(cluster)
    for seed in range(30):
        run(cluster, 10_000.0, lambda: len(cluster.running()) == 3)
        run(cluster, 1000.0)
        fault.inject(cluster, Random(seed))
    assert 60 < cluster.counters["repeated formats"] <= 240
    run(cluster, 10_000.0)
    assert len(cluster.running()) == 3


def test_every_kind_of_request_is_refused_by_every_node() -> None:
    cluster, fault = make_cluster(3), RefusedRequest()
    elect(cluster)
    for seed in range(60):
        fault.inject(cluster, Random(seed))
        run(cluster, 1000.0)
    refused = {name for name in cluster.counters if name.startswith("refused: ") and "without" not in name}
    assert len(refused) == 11, refused
    assert len(set(_KINDS)) == 9


def test_accepted_request_is_a_violation() -> None:
    cluster = make_cluster(3)
    elect(cluster)
    leader = next(m for m in cluster.running() if m.node is not None and m.node.engine.is_leader)
    removed = next(machine for machine in cluster.running() if machine is not leader)
    request = RemoveRaftVoterRequest(None, removed.node_id, removed.directory_id)
    RefusedRequest().send(cluster, leader, Refused(request, 0))
    with pytest.raises(InvariantViolation):
        run(cluster, 5000.0)
