"""Registered controllers: what images have is what the records say, and those that are gone can be unregistered."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.controller.metadata_versions import default_levels
from quorumd.controller.registered_controllers import UNREGISTER_SINCE
from quorumd.ids import ZERO_UUID
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.liveness.membership import (
    RECORDED,
    UNREGISTERED,
    LastUnregistrations,
    require_recorded,
    unregistered,
)
from quorumd.simulator.workload.feature_options import FeatureOptions
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def registered_cluster(metadata_version: int) -> Cluster:
    features = FeatureOptions(default_levels(metadata_version))
    cluster = make_cluster(voters=3, registers=True, features=features)
    elect(cluster)
    run(cluster, 10_000.0, lambda: not unregistered(cluster, [1, 2, 3]))
    assert not unregistered(cluster, [1, 2, 3])
    return cluster


def last_unregistrations(cluster: Cluster) -> LastUnregistrations:
    return LastUnregistrations(cluster, Random(1), lambda until: run(cluster, until - cluster.heap.now_ms))


@pytest.mark.parametrize("metadata_version", [UNREGISTER_SINCE, UNREGISTER_SINCE - 1])
def test_controller_that_has_left_is_unregistered(metadata_version: int) -> None:
    cluster = registered_cluster(metadata_version)
    cluster.retire(3)
    elect(cluster)
    last_unregistrations(cluster).require()
    for machine in cluster.running():
        assert machine.node is not None
        assert sorted(machine.node.state_machine.image.controllers) == [1, 2]
    require_recorded(cluster)


def test_controller_that_stays_registered_is_reported() -> None:
    cluster = registered_cluster(UNREGISTER_SINCE)
    leader = elect(cluster)
    gone = next(node_id for node_id in cluster.machines if node_id != leader.node_id)
    cluster.retire(gone)
    cluster.kill(leader.node_id)  # nothing can be committed from here on
    with pytest.raises(InvariantViolation, match=UNREGISTERED):
        last_unregistrations(cluster).require()


def test_image_that_differs_from_its_records_is_reported() -> None:
    cluster = registered_cluster(UNREGISTER_SINCE)
    node = cluster.machines[2].node
    assert node is not None
    controllers = node.state_machine.image.controllers
    controllers[3] = controllers[3]._replace(incarnation_id=ZERO_UUID)
    with pytest.raises(InvariantViolation, match=RECORDED):
        require_recorded(cluster)
