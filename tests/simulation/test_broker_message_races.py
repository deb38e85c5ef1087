"""Races of replication with late, lost and repeated messages (docs/decisions.md, "Races").

As in `test_broker_races.py`, the brokers are whole and the planners are the controller's.
"""

from __future__ import annotations

from typing import Any

from quorumd.broker.replication.follower_state import FollowerState
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from quorumd.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from quorumd.protocol.wire import Message
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


def is_heartbeat_of(request: Message, broker_id: int) -> bool:
    return isinstance(request, BrokerHeartbeatRequest) and request.broker_id == broker_id


def is_fetch_of(request: Message, replica_id: int) -> bool:
    state = request.replica_state if isinstance(request, FetchRequest) else None
    return state is not None and state.replica_id == replica_id


def broker_epoch(cluster: SimulatedBrokers, broker_id: int) -> int:
    epoch: int = cluster.controller.image.brokers[broker_id].epoch
    return epoch


def maximal_isr(cluster: SimulatedBrokers) -> set[int]:
    hosted = cluster.hosted(1, EVENTS)
    assert hosted is not None
    return set(hosted.replica.maximal_isr)


def follower(cluster: SimulatedBrokers, replica_id: int) -> FollowerState:
    """The state of a follower at broker 1, the leader."""
    hosted = cluster.hosted(1, EVENTS)
    assert hosted is not None
    assert hosted.replica.leadership is not None
    return hosted.replica.leadership.followers[replica_id]


def fetch(
    cluster: SimulatedBrokers,
    offset: int,
    *,
    last_epoch: int = -1,
    max_wait_ms: int = 0,
    session: tuple[int, int] = (0, -1),
) -> FetchRequest:
    """A fetch of broker 3, in its present incarnation, from broker 1."""
    hosted = cluster.hosted(1, EVENTS)
    assert hosted is not None
    partition = FetchPartition(
        0,
        current_leader_epoch=hosted.replica.leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic("", hosted.id.topic_id, [partition])],
        replica_state=ReplicaState(3, broker_epoch(cluster, 3)),
    )


def partition_of(response: Any) -> Any:
    return response.responses[0].partitions[0]


def test_race_2_proposal_waits_for_a_fetch_of_the_incarnation_in_the_metadata() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 1)
    fence(cluster, cluster.brokers[3])
    cluster.brokers[3].replace_disk()
    cluster.holds_request = lambda request: is_fetch_of(request, 3)
    cluster.brokers[3].start()
    cluster.run_until(lambda: not cluster.controller.image.brokers[3].is_fenced)
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    cluster.run_for(3_000.0)
    assert maximal_isr(cluster) == {1, 2}
    deliver(cluster)
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})
    proposal = next(each for each in reversed(cluster.controller.requests) if is_proposal(each))
    assert isinstance(proposal, AlterPartitionRequest)
    members = proposal.topics[0].partitions[0].new_isr_with_epochs
    assert {each.broker_id: each.broker_epoch for each in members}[3] == broker_epoch(cluster, 3)
    assert end(cluster, 3) == 2


def test_race_8_proposal_refused_by_a_deposed_controller_goes_to_the_next_one() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    fence(cluster, cluster.brokers[3])
    cluster.holds_request = is_proposal
    cluster.brokers[3].start()
    cluster.run_until(lambda: bool(cluster.held))
    cluster.controller.is_deposed = True
    deliver(cluster)
    cluster.run_for(500.0)
    assert sum(map(is_proposal, cluster.controller.requests)) > 2, "it is repeated"
    assert (isr(cluster), maximal_isr(cluster)) == ({1, 2}, {1, 2, 3})
    cluster.controller.is_deposed = False
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    fence(cluster, cluster.brokers[1])
    require_everything(cluster, b"<0>", b"<1>")


def test_race_10_delayed_fetch_is_not_counted_by_the_leader_of_a_later_epoch() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    cluster.brokers[3].kill()
    client = Client(cluster)
    client.send(fetch(cluster, 1, max_wait_ms=60_000), 17)
    assert client.responses == []
    cluster.holds_request = lambda request: is_heartbeat_of(request, 1)
    cluster.run_until(lambda: cluster.partition(EVENTS).leader == 2)
    cluster.run_until(lambda: bool(client.responses))
    error = partition_of(client.responses[0]).error_code
    assert error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    deliver(cluster)
    cluster.brokers[3].start()
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})


def test_race_10_late_response_of_the_previous_leader_is_ignored() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    cluster.holds_response = lambda request: is_fetch_of(request, 3)
    cluster.produce(EVENTS, b"<1>")
    cluster.run_until(lambda: end(cluster, 2) == 2 and bool(cluster.held))
    cluster.holds_request = lambda request: is_heartbeat_of(request, 1)
    cluster.run_until(lambda: cluster.partition(EVENTS).leader not in (1, -1))
    deliver(cluster)
    assert cluster.produce_and_wait(EVENTS, b"<2>").error is ErrorCode.NONE
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})
    logs = []
    for broker_id in (1, 2, 3):
        hosted = cluster.hosted(broker_id, EVENTS)
        assert hosted is not None
        logs.append(hosted.log.read(0, 1 << 20, hosted.log.end_offset))
    assert logs[0] == logs[1] == logs[2]


def test_race_12_metadata_of_a_response_leaves_the_next_proposal_pending() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 1)
    for broker_id in (2, 3):
        fence(cluster, cluster.brokers[broker_id])
    cluster.holds_request = is_proposal
    for broker_id in (2, 3):
        cluster.brokers[broker_id].start()
    cluster.run_until(lambda: bool(cluster.held) and end(cluster, 2) == end(cluster, 3) == 1)
    leader = cluster.brokers[1]
    leader.holds_metadata = True
    (first,), cluster.held = cluster.held, []
    first()
    cluster.run_until(lambda: bool(cluster.held))
    assert (len(isr(cluster)), maximal_isr(cluster)) == (2, {1, 2, 3})
    leader.holds_metadata = False
    leader.catch_up()
    cluster.run_until(lambda: leader.applied == len(cluster.controller.batches))
    assert maximal_isr(cluster) == {1, 2, 3}
    deliver(cluster)
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})


def test_race_17_fetch_of_a_log_that_diverges_does_not_count() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    fence(cluster, cluster.brokers[1])
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    cluster.brokers[1].start()
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})
    fence(cluster, cluster.brokers[2])
    cluster.run_until(lambda: cluster.leader(EVENTS) is cluster.brokers[1])
    cluster.brokers[3].kill()
    first, second = 0, cluster.partition(EVENTS).leader_epoch - 1
    client, before = Client(cluster), follower(cluster, 3).fetched_ms
    diverging = partition_of(client.call(fetch(cluster, 2, last_epoch=first), 17)).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (first, 1)
    assert follower(cluster, 3).fetched_ms == before
    assert partition_of(client.call(fetch(cluster, 2, last_epoch=second), 17)).error_code == 0
    assert follower(cluster, 3).fetched_ms > before


def test_race_19_repeated_fetch_of_a_session_moves_nothing_back() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    cluster.brokers[3].kill()
    client = Client(cluster)
    full = client.call(fetch(cluster, 1, session=(0, 0)), 17)
    assert full.session_id
    incremental = fetch(cluster, 1, session=(full.session_id, 1))
    assert client.call(incremental, 17).error_code == ErrorCode.NONE
    assert cluster.produce(EVENTS, b"<1>") is not None
    assert client.call(fetch(cluster, 2, session=(full.session_id, 2)), 17).error_code == ErrorCode.NONE
    before = follower(cluster, 3).end_offset
    assert client.call(incremental, 17).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert follower(cluster, 3).end_offset == before == 2
    fence(cluster, cluster.brokers[1])
    cluster.brokers[1].start()
    cluster.run_until(lambda: cluster.brokers[1].is_unfenced)
    client.use(cluster.routes(1))
    assert client.call(incremental, 17).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_race_22_repeated_registration_keeps_the_epoch_and_the_isr() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    cluster.brokers[3].stop()
    lost: list[BrokerRegistrationRequest] = []

    def loses(request: Message) -> bool:
        if not isinstance(request, BrokerRegistrationRequest) or len(lost) == 2:
            return False
        lost.append(request)
        return True

    cluster.loses_response = loses
    cluster.brokers[3].start()
    cluster.run_until(lambda: len(lost) == 1)
    epoch, members = broker_epoch(cluster, 3), isr(cluster)
    cluster.run_until(lambda: cluster.brokers[3].broker.epoch >= 0)
    assert lost[0].incarnation_id == lost[1].incarnation_id
    assert cluster.brokers[3].broker.epoch == broker_epoch(cluster, 3) == epoch
    assert isr(cluster) == members
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})


def test_race_23_change_that_a_deposed_controller_undoes_is_seen_by_no_broker() -> None:
    cluster = start((1, 2, 3, 4), (1, 2, 3), 2)
    cluster.holds_request = is_proposal
    topic = ReassignableTopic(EVENTS, [ReassignablePartition(0, [2, 3, 4])])
    cluster.controller.handle(AlterPartitionReassignmentsRequest(topics=[topic]), 0)
    cluster.run_until(lambda: bool(cluster.held))
    cluster.controller.is_deposed = True
    before = cluster.partition(EVENTS)
    deliver(cluster)
    cluster.run_for(500.0)
    assert cluster.controller.undone > 0
    assert cluster.partition(EVENTS) == before
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    assert cluster.leader(EVENTS) is cluster.brokers[1], "it is not moved away yet"
    cluster.controller.is_deposed = False
    cluster.run_until(lambda: cluster.partition(EVENTS).replicas == (2, 3, 4))
    require_everything(cluster, b"<0>", b"<1>")


def test_race_25_late_copy_of_a_proposal_that_was_given_up_changes_nothing() -> None:
    cluster = start((1, 2, 3), (1, 2, 3), 2)
    fence(cluster, cluster.brokers[3])
    given_up: list[Message] = []

    def is_first(request: Message) -> bool:
        if is_proposal(request) and (not given_up or request is given_up[0]):
            given_up[:] = [request]
            return True
        return False

    cluster.abandons_request = is_first
    cluster.holds_request = lambda request: is_proposal(request) and not is_first(request)
    cluster.brokers[3].start()
    cluster.run_until(lambda: len(cluster.held) == 2)
    copy, retry = cluster.held
    cluster.held = []
    cluster.holds_request = lambda request: is_heartbeat_of(request, 3)
    cluster.run_until(lambda: cluster.controller.image.brokers[3].is_fenced)
    retry()
    cluster.run_until(lambda: maximal_isr(cluster) == {1, 2})
    cluster.brokers[3].is_isolated = True
    assert cluster.produce_and_wait(EVENTS, b"<1>").error is ErrorCode.NONE
    assert high_watermark(cluster, 1) == 2
    cluster.brokers[3].is_isolated = False
    cluster.holds_request = is_proposal
    heartbeats, cluster.held = cluster.held, []
    for each in heartbeats:
        each()
    cluster.run_until(lambda: not cluster.controller.image.brokers[3].is_fenced)
    copy()
    cluster.run_for(5.0)
    assert isr(cluster) == {1, 2}
    deliver(cluster)
    cluster.run_until(lambda: isr(cluster) == {1, 2, 3})
    require_everything(cluster, b"<0>", b"<1>")
