"""Leaders that respond wrongly: their followers notice it, lose nothing, and follow them again."""

from __future__ import annotations

from random import Random

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from quorumd.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.faults.faulty_leaders import FaultyLeader, _forwarded, _other_shape
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.simulation import Simulation
from tests.support.simulator.simulated_cluster import elect, leader_of, make_cluster, run


def altered(cluster: Cluster) -> dict[str, int]:
    prefix = "faulty responses: "
    found = cluster.counters.items()
    return {name.removeprefix(prefix): count for name, count in found if name.startswith(prefix) and count}


def chosen(seed: int) -> int:
    """The number of followers, of two, that the fault chooses."""
    return 1 + Random(seed).randrange(2)


def test_wrong_responses_are_refused_and_a_leader_is_followed_again() -> None:
    cluster = make_cluster(voters=3)
    committed = elect(cluster).mirror.batches[:]
    for seed in range(12):
        FaultyLeader().inject(cluster, Random(seed))
        run(cluster, 5000.0)
        leader = leader_of(cluster)
        assert leader is not None
        assert leader.mirror.batches[: len(committed)] == committed, f"seed {seed}"
        committed = leader.mirror.batches[:]
        for machine in cluster.running():
            assert machine.node is not None
            assert machine.node.engine.leader_id == leader.node_id, f"seed {seed}"
            assert machine.mirror.batches == committed, f"seed {seed}"
    assert {"error", "truncation", "snapshot", "old_records"} <= altered(cluster).keys()


def test_one_follower_with_wrong_responses_does_not_depose_the_leader() -> None:
    cluster = make_cluster(voters=3)
    leader = elect(cluster)
    run(cluster, 2000.0)
    assert leader.node is not None
    epoch = leader.node.engine.epoch
    for seed in (seed for seed in range(40) if chosen(seed) == 1):
        FaultyLeader().inject(cluster, Random(seed))
        run(cluster, 5000.0)
        assert leader.node.engine.is_leader, f"seed {seed}"
        assert leader.node.engine.epoch == epoch, f"seed {seed}"
    assert len(altered(cluster)) > 3


def test_no_response_is_altered_after_the_repair() -> None:
    cluster = make_cluster(voters=3)
    elect(cluster)
    run(cluster, 2000.0)
    FaultyLeader().inject(cluster, Random(1))
    cluster.is_repaired = True
    run(cluster, 5000.0)
    assert altered(cluster) == {}


def test_fault_needs_a_follower() -> None:
    assert not FaultyLeader().available(make_cluster(voters=3))
    cluster = make_cluster(voters=1)
    elect(cluster)
    assert not FaultyLeader().available(cluster)


def test_forwarded_request_gets_an_error_or_the_response_to_another() -> None:
    found = set()
    for seed in range(20):
        response = EnvelopeResponse(b"\x00\x00\x00\x05result", 0)
        assert _forwarded(response, Random(seed))
        found.add((response.error_code, response.response_data))
    unknown = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert found == {(unknown, b"\x00\x00\x00\x05result"), (0, b"\x00\x00\x00\x04result")}


def test_responses_to_forwarded_requests_are_altered() -> None:
    report = Simulation(6, draw_options(6, "faulty leaders")).run()
    assert report.ok, str(report)
    assert report.counters["faulty responses: forwarded"] > 0


def test_response_has_an_error_or_another_number_of_partitions() -> None:
    found = set()
    for seed in range(40):
        response = FetchResponse(responses=[FetchableTopicResponse()])
        assert _other_shape(response, response.responses, Random(seed))
        found.add((response.error_code != 0, len(response.responses)))
    assert found == {(True, 1), (False, 0), (False, 2)}
