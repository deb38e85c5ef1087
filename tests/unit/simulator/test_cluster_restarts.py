"""The log that the next process on a machine must find, however the previous one ended."""

from __future__ import annotations

from contextlib import suppress

import pytest

from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.simulator.data_directories import DATA_DIRECTORY
from quorumd.simulator.environment.disk import PowerLost
from tests.support.simulator.simulated_cluster import elect, make_cluster, run

NEVER_COMMITTED = encode_record(NoOpRecord(), 0)


def test_process_that_ends_during_its_start_keeps_the_expected_log() -> None:
    cluster = make_cluster(voters=1)
    machine = elect(cluster)
    cluster.kill(machine.node_id)
    before = list(machine.recoverable_batches)
    assert before
    machine.calls_to_power_loss = 1
    with suppress(PowerLost):
        cluster.boot(machine.node_id)
    run(cluster, 10_000.0, lambda: cluster.counters["power losses"] > 0)
    assert cluster.counters["power losses"] == 1
    assert machine.recoverable_batches  # the first batches were synced long ago
    assert machine.recoverable_batches == before[: len(machine.recoverable_batches)]


@pytest.mark.parametrize("is_corrupted", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
def test_data_dropped_by_a_failed_sync_is_not_expected(is_corrupted: bool, is_killed: bool) -> None:
    """Whether or not the process learns of it, and whatever else is wrong with the disk."""
    assert sum(fails_to_sync(seed, is_corrupted, is_killed) for seed in range(1, 9)) > 0


def fails_to_sync(seed: int, is_corrupted: bool, is_killed: bool) -> bool:
    """Return whether the last append is lost; the next process finds everything that it must."""
    cluster = make_cluster(voters=1, seed=seed)
    machine = elect(cluster)
    assert machine.node is not None
    run(cluster, 100.0)
    before = len(machine.mirror.batches)
    if is_corrupted:
        machine.disk.corrupt(f"{DATA_DIRECTORY}/meta.properties", 0, 1)
    machine.disk.fail_sync()
    machine.node.core.proposals._append([NEVER_COMMITTED])
    run(cluster, 1000.0, lambda: machine.disk.syncs_failed > 0)
    if is_killed:
        cluster.kill(machine.node_id)
        cluster.restart_later(machine.node_id)
    run(cluster, 1000.0, lambda: machine.process is None)
    machine.disk.restore()
    kept = list(machine.recoverable_batches)
    run(cluster, 10_000.0, lambda: machine.process is not None)
    assert machine.mirror.batches[: len(kept)] == kept
    return len(kept) == before
