"""Races of replication between whole brokers and the controller's real planners (docs/decisions.md, "Races").

The brokers run on simulated disks, clocks and networks. Each test holds back what the race delays. That a broken rule
is noticed is shown by the mutants of `tests/mutants/brokers.toml`.
"""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.support.broker.api_clients import Client
from tests.support.broker.races import (
    EVENTS,
    deliver,
    end,
    fence,
    high_watermark,
    is_proposal,
    isr,
    require_everything,
    start,
)
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.log.data_batches import produced


@pytest.mark.parametrize("is_unfenced", [False, True])
def test_race_1_replica_that_lost_its_disk_does_not_join(is_unfenced: bool) -> None:
    cluster = start((1, 2), (1, 2), 1)
    follower = cluster.brokers[2]
    fence(cluster, follower)
    assert isr(cluster) == {1}
    cluster.holds_request = is_proposal
    follower.start()
    cluster.run_until(lambda: bool(cluster.held))
    fence(cluster, follower)
    follower.replace_disk()
    follower.start()
    if is_unfenced:
        cluster.run_until(lambda: not cluster.controller.image.brokers[2].is_fenced)
    before = cluster.partition(EVENTS).partition_epoch
    first = cluster.held[0]
    cluster.held = cluster.held[1:]
    first()
    assert isr(cluster) == {1}
    assert cluster.partition(EVENTS).partition_epoch == before
    deliver(cluster)
    cluster.run_until(lambda: isr(cluster) == {1, 2})
    require_everything(cluster, b"<0>")


def test_race_4_last_replica_of_the_isr_loses_its_log() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    fence(cluster, cluster.brokers[2])
    remaining = cluster.brokers[3]
    remaining.is_isolated = True
    cluster.run_until(lambda: isr(cluster) == {1})
    cluster.run_for(100.0)
    assert cluster.produce(EVENTS, b"<not enough>")[0].error is ErrorCode.NOT_ENOUGH_REPLICAS
    leader = cluster.brokers[1]
    fence(cluster, leader)
    assert cluster.partition(EVENTS).leader == -1
    leader.replace_disk()
    leader.start()
    cluster.run_until(lambda: not cluster.controller.image.brokers[1].is_fenced)
    assert cluster.partition(EVENTS).leader == -1
    remaining.is_isolated = False
    remaining.catch_up()
    cluster.run_until(lambda: cluster.partition(EVENTS).leader == 3)
    require_everything(cluster, b"<0>")


def test_race_3_late_fetch_of_an_earlier_incarnation_does_not_count() -> None:
    cluster = start((1, 2), (1, 2), 1)
    follower = cluster.brokers[2]
    earlier = cluster.controller.image.brokers[2].epoch
    fence(cluster, follower)
    follower.replace_disk()
    cluster.holds_request = is_proposal
    follower.start()
    cluster.run_until(lambda: bool(cluster.held))
    held, cluster.held = cluster.held, []
    follower.is_isolated = True
    cluster.run_for(5.0)
    hosted = cluster.hosted(1, EVENTS)
    assert hosted is not None
    assert hosted.replica.leadership is not None
    state = hosted.replica.leadership.followers[2]
    before = (state.end_offset, state.broker_epoch, state.fetched_ms)
    late = FetchPartition(
        0, current_leader_epoch=hosted.replica.leader_epoch, fetch_offset=1, partition_max_bytes=1 << 20
    )
    topic = FetchTopic("", hosted.id.topic_id, [late])
    request = FetchRequest(max_wait_ms=0, topics=[topic], replica_state=ReplicaState(2, earlier))
    response = Client(cluster).call(request, 17)
    assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (state.end_offset, state.broker_epoch, state.fetched_ms) == before
    follower.is_isolated = False
    cluster.held = held
    deliver(cluster)
    cluster.run_until(lambda: isr(cluster) == {1, 2})
    require_everything(cluster, b"<0>")


def test_race_5_proposal_does_not_bring_back_what_the_controller_has_removed() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 1)
    fence(cluster, cluster.brokers[3])
    cluster.holds_request = is_proposal
    cluster.brokers[3].start()
    cluster.run_until(lambda: bool(cluster.held))
    fence(cluster, cluster.brokers[2])
    assert isr(cluster) == {1}
    deliver(cluster)
    assert 2 not in isr(cluster)
    cluster.run_until(lambda: isr(cluster) == {1, 3})
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    fence(cluster, cluster.brokers[1])
    require_everything(cluster, b"<0>", b"<1>")


def test_race_6_leader_waits_for_a_replica_whose_join_it_did_not_learn_of() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    fence(cluster, cluster.brokers[3])
    cluster.holds_response = is_proposal
    cluster.brokers[3].start()
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})
    hosted = cluster.hosted(1, EVENTS)
    assert hosted is not None
    assert set(hosted.replica.maximal_isr) == {1, 2, 3}
    deliver(cluster)
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    fence(cluster, cluster.brokers[1])
    require_everything(cluster, b"<0>", b"<1>")


def test_race_7_replaced_leader_that_is_cut_off_acknowledges_nothing() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    zombie = cluster.brokers[1]
    zombie.is_isolated = True
    hosted = cluster.hosted(1, EVENTS)
    assert hosted is not None
    results: list[ErrorCode] = []
    cluster.append(zombie, hosted, b"<lost>", lambda result: results.append(result.error))
    cluster.run_until(lambda: cluster.partition(EVENTS).leader in (2, 3))
    cluster.run_until(lambda: bool(results))
    assert results == [ErrorCode.REQUEST_TIMED_OUT]
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    zombie.is_isolated = False
    zombie.catch_up()
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})
    assert end(cluster, 1) == end(cluster, cluster.partition(EVENTS).leader) == 2
    require_everything(cluster, b"<0>", b"<1>")


def test_race_9_fenced_broker_is_served_and_not_proposed() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    cluster.holds_request = lambda request: (
        isinstance(request, BrokerHeartbeatRequest) and request.broker_id == 3
    )
    cluster.run_until(lambda: cluster.controller.image.brokers[3].is_fenced)
    assert isr(cluster) == {1, 2}
    heartbeats = cluster.held
    cluster.held = []
    cluster.holds_request = is_proposal
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    cluster.run_until(lambda: end(cluster, 3) == 2)
    cluster.run_for(1_000.0)
    assert cluster.held == []
    cluster.held = heartbeats
    deliver(cluster)
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})


def test_race_11_replica_that_is_removed_and_added_again_joins_with_all_records() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 1)
    epoch = cluster.partition(EVENTS).leader_epoch
    for replicas in ([1, 2], [1, 2, 3]):
        topic = ReassignableTopic(EVENTS, [ReassignablePartition(0, replicas)])
        cluster.controller.handle(AlterPartitionReassignmentsRequest(topics=[topic]), 0)
    assert cluster.partition(EVENTS).leader_epoch > epoch
    assert isr(cluster) == {1, 2}
    cluster.run_until(lambda: 3 in isr(cluster))
    assert end(cluster, 3) == high_watermark(cluster, 1) == 1
    fence(cluster, cluster.brokers[1])
    fence(cluster, cluster.brokers[2])
    require_everything(cluster, b"<0>")


def test_race_13_leader_that_is_moved_away_acknowledges_nothing_more() -> None:
    cluster = start((1, 2, 3, 4), (1, 2, 3), 2)
    results = []
    topic = ReassignableTopic(EVENTS, [ReassignablePartition(0, [2, 3, 4])])
    cluster.controller.handle(AlterPartitionReassignmentsRequest(topics=[topic]), 0)
    for number in range(40):
        leader = cluster.leader(EVENTS)
        hosted = cluster.hosted(leader.id, EVENTS) if leader is not None else None
        if leader is not None and hosted is not None:
            value = b"<v%d>" % number
            cluster.append(leader, hosted, value, lambda result, value=value: results.append((value, result)))  # type: ignore[misc]  # the default binds it
        cluster.run_for(5.0)
    cluster.run_until(lambda: cluster.partition(EVENTS).replicas == (2, 3, 4))
    assert cluster.await_leader(EVENTS).id in (2, 3, 4)
    cluster.run_for(6_000.0)
    acknowledged = [value for value, result in results if result.error is ErrorCode.NONE]
    assert acknowledged
    require_everything(cluster, b"<0>", *acknowledged)
    assert cluster.hosted(1, EVENTS) is None


def test_race_14_high_watermark_waits_for_members_that_are_proposed() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    fence(cluster, cluster.brokers[3])
    cluster.holds_response = is_proposal
    cluster.brokers[3].start()
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})
    cluster.brokers[3].kill()
    result = cluster.produce(EVENTS, b"<1>")
    cluster.run_for(500.0)
    assert not result
    assert (high_watermark(cluster, 1), end(cluster, 1)) == (1, 2)
    deliver(cluster)
    cluster.run_until(lambda: isr(cluster) == {1, 2})
    cluster.run_until(lambda: high_watermark(cluster, 1) == 2)


def test_race_15_proposed_member_does_not_count_for_min_isr() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    for broker_id in (2, 3):
        fence(cluster, cluster.brokers[broker_id])
    cluster.holds_request = is_proposal
    hosted = cluster.hosted(1, EVENTS)
    assert hosted is not None
    cluster.brokers[1].broker.partitions.append(
        hosted, produced([(None, b"<1>")]), 1, 1_000.0, lambda result: None
    )
    cluster.brokers[3].start()
    cluster.run_until(lambda: bool(cluster.held) and end(cluster, 3) == 2)
    cluster.run_for(500.0)
    assert set(hosted.replica.maximal_isr) == {1, 3}
    assert hosted.replica.high_watermark == 1
    deliver(cluster)
    cluster.run_until(lambda: high_watermark(cluster, 1) == 2)


def test_race_16_broker_that_returns_without_its_log_leads_nothing() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    leader = cluster.brokers[1]
    epoch = cluster.controller.image.brokers[1].epoch
    leader.kill()
    leader.replace_disk()
    leader.start()
    cluster.run_until(lambda: cluster.controller.image.brokers[1].epoch > epoch)
    assert 1 not in isr(cluster)
    assert cluster.partition(EVENTS).leader in (2, 3)
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})
    assert end(cluster, 1) == 1
    require_everything(cluster, b"<0>")


def test_race_18_broker_that_shuts_down_does_not_join() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    fence(cluster, cluster.brokers[3])
    cluster.holds_request = is_proposal
    cluster.brokers[3].start()
    cluster.run_until(lambda: bool(cluster.held))
    cluster.brokers[3].stop()
    deliver(cluster)
    assert isr(cluster) == {1, 2}
    hosted = cluster.hosted(1, EVENTS)
    assert hosted is not None
    assert set(hosted.replica.maximal_isr) == {1, 2}
    cluster.brokers[3].start()
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})


def test_race_20_new_leader_waits_for_the_start_of_its_epoch() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 1)
    fence(cluster, cluster.brokers[3])
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    hosted = cluster.hosted(2, EVENTS)
    assert hosted is not None
    hosted.replica.high_watermark = 1  # It has not learned of the second record yet.
    fence(cluster, cluster.brokers[1])
    leader = cluster.await_leader(EVENTS)
    assert leader.id == 2
    cluster.brokers[3].start()
    cluster.run_until(lambda: isr(cluster) == {2, 3})
    assert end(cluster, 3) == 2
    require_everything(cluster, b"<0>", b"<1>")


def test_race_21_member_with_more_records_follows_an_uncleanly_elected_leader() -> None:
    cluster = SimulatedBrokers((1, 2), replica_lag_time_max_ms=2_000.0)
    cluster.start()
    cluster.create_topic(EVENTS, (1, 2), min_insync_replicas="1", unclean_leader_election_enable="true")
    assert cluster.produce_and_wait(EVENTS, b"<0>").error is ErrorCode.NONE
    fence(cluster, cluster.brokers[2])
    assert cluster.produce_and_wait(EVENTS, b"<lost>").error is ErrorCode.NONE
    fence(cluster, cluster.brokers[1])
    cluster.brokers[2].start()
    cluster.run_until(lambda: cluster.partition(EVENTS).leader == 2)
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    cluster.brokers[1].start()
    cluster.run_until(lambda: isr(cluster) == {1, 2})
    hosted = cluster.hosted(1, EVENTS)
    assert hosted is not None
    data = hosted.log.read(0, 1 << 20, hosted.log.end_offset)
    assert [data.count(value) for value in (b"<0>", b"<lost>", b"<1>")] == [1, 0, 1]


def test_race_24_replicas_that_catch_up_together_join_one_after_the_other() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 1)
    for broker_id in (2, 3):
        fence(cluster, cluster.brokers[broker_id])
    cluster.holds_request = is_proposal
    for broker_id in (2, 3):
        cluster.brokers[broker_id].start()
    cluster.run_until(lambda: bool(cluster.held))
    cluster.run_for(1_000.0)
    assert len(cluster.held) == 1
    deliver(cluster)
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})


def test_race_26_member_that_was_fenced_meanwhile_leaves_the_join_of_another() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 1)
    fence(cluster, cluster.brokers[3])
    cluster.holds_response = is_proposal
    cluster.brokers[3].start()
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})
    fence(cluster, cluster.brokers[2])
    hosted = cluster.hosted(1, EVENTS)
    assert hosted is not None
    assert 3 in hosted.replica.maximal_isr
    deliver(cluster)
    assert isr(cluster) == {1, 3}
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    fence(cluster, cluster.brokers[1])
    require_everything(cluster, b"<0>", b"<1>")
