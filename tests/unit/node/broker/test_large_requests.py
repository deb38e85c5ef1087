"""Large requests to a broker are handled in parts, with the response that they have as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import pytest

from quorumd.broker.api.transactions import MAX_PARTITIONS_ADDED
from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.api.authorization import RequestAuthorization
from quorumd.node.api.forwarding import decode_response
from quorumd.node.broker.clients import BROKER_RULES
from quorumd.node.broker.large_requests import (
    BROKER_SPLIT_RULES,
    DESCRIBED_ONCE,
    MAX_OF_MEMBER,
    WHOLE_RULES,
    handled_in_parts,
)
from quorumd.node.sessions.request_splitting import parts_of_lists
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.apis import ApiKey, api, response_class
from quorumd.protocol.messages import (
    add_partitions_to_txn_request,
    alter_replica_log_dirs_request,
    consumer_group_describe_request,
    consumer_group_heartbeat_request,
    delete_groups_request,
    delete_records_request,
    describe_groups_request,
    describe_producers_request,
    describe_transactions_request,
    find_coordinator_request,
    join_group_request,
    leave_group_request,
    list_offsets_request,
    offset_commit_request,
    offset_delete_request,
    offset_fetch_request,
    offset_for_leader_epoch_request,
    produce_request,
    sync_group_request,
    txn_offset_commit_request,
    write_txn_markers_request,
)
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.security.acls import Operation, ResourceType
from quorumd.security.authorizer import Authorizer
from tests.support.broker.api_clients import cluster_with_groups
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.call_counter import CallCounter
from tests.support.log.data_batches import produced
from tests.support.node.broker_nodes import CLIENT_PORT, BrokerCluster, broker_role
from tests.support.node.nodes import Client
from tests.support.node.recording_session import RecordingSession, request_of
from tests.support.node.scripted_role import ScriptedRole
from tests.support.security.rights import allow, authorizer_of

PART = MAX_PARTITIONS_PER_PART
NAMES = ("events", "missing")


def produce(count: int, acks: int = 1, names: Iterable[str] = NAMES) -> Message:
    wire = produce_request
    return wire.ProduceRequest(
        None,
        acks,
        1000,
        [
            wire.TopicProduceData(
                name, partition_data=[wire.PartitionProduceData(n, produced()) for n in range(count)]
            )
            for name in names
        ],
    )


def list_offsets(count: int) -> Message:
    wire = list_offsets_request
    partitions = [wire.ListOffsetsPartition(number, -1, -1) for number in range(count)]
    return wire.ListOffsetsRequest(-1, topics=[wire.ListOffsetsTopic(name, partitions) for name in NAMES])


def offset_for_leader_epoch(count: int) -> Message:
    wire = offset_for_leader_epoch_request
    partitions = [wire.OffsetForLeaderPartition(number, -1, 0) for number in range(count)]
    return wire.OffsetForLeaderEpochRequest(
        -1, [wire.OffsetForLeaderTopic(name, partitions) for name in NAMES]
    )


def delete_records(count: int) -> Message:
    wire = delete_records_request
    partitions = [wire.DeleteRecordsPartition(number, 0) for number in range(count)]
    return wire.DeleteRecordsRequest([wire.DeleteRecordsTopic(name, partitions) for name in NAMES], 1000)


def describe_producers(count: int) -> Message:
    wire = describe_producers_request
    return wire.DescribeProducersRequest([wire.TopicRequest(name, list(range(count))) for name in NAMES])


def offset_fetch(count: int) -> Message:
    wire = offset_fetch_request
    groups = [wire.OffsetFetchRequestGroup(name, None, -1, None) for name in names_of(count)]
    topics = [wire.OffsetFetchRequestTopics(name, partition_indexes=[0]) for name in names_of(count)]
    return wire.OffsetFetchRequest(groups=[*groups, wire.OffsetFetchRequestGroup("0", None, -1, topics)])


def offset_fetch_of_one(count: int) -> Message:
    wire = offset_fetch_request
    topics = [wire.OffsetFetchRequestTopic(name, list(range(count))) for name in NAMES]
    return wire.OffsetFetchRequest("0", topics)


def find_coordinator(count: int) -> Message:
    return find_coordinator_request.FindCoordinatorRequest(key_type=0, coordinator_keys=names_of(count))


def offset_commit(count: int) -> Message:
    wire = offset_commit_request
    partitions = [wire.OffsetCommitRequestPartition(number, 1) for number in range(count)]
    topics = [wire.OffsetCommitRequestTopic(name, partitions=partitions) for name in NAMES]
    return wire.OffsetCommitRequest("0", topics=topics)


def txn_offset_commit(count: int) -> Message:
    wire = txn_offset_commit_request
    partitions = [wire.TxnOffsetCommitRequestPartition(number, 1) for number in range(count)]
    topics = [wire.TxnOffsetCommitRequestTopic(name, partitions=partitions) for name in NAMES]
    return wire.TxnOffsetCommitRequest("t", "0", topics=topics)


def offset_delete(count: int) -> Message:
    wire = offset_delete_request
    partitions = [wire.OffsetDeleteRequestPartition(number) for number in range(count)]
    return wire.OffsetDeleteRequest("0", [wire.OffsetDeleteRequestTopic(name, partitions) for name in NAMES])


def write_txn_markers(count: int) -> Message:
    wire = write_txn_markers_request
    topics = [wire.WritableTxnMarkerTopic(name, list(range(count))) for name in NAMES]
    another = [wire.WritableTxnMarkerTopic("events", [0])]
    return wire.WriteTxnMarkersRequest(
        [wire.WritableTxnMarker(1, 0, True, topics, 0), wire.WritableTxnMarker(2, 0, True, another, 0)]
    )


def alter_replica_log_dirs(count: int) -> Message:
    wire = alter_replica_log_dirs_request
    topics = [wire.AlterReplicaLogDirTopic(name, list(range(count))) for name in NAMES]
    return wire.AlterReplicaLogDirsRequest([wire.AlterReplicaLogDir("/missing", topics)])


def add_partitions(count: int) -> Message:
    wire = add_partitions_to_txn_request
    topics = [wire.AddPartitionsToTxnTopic(name, list(range(count))) for name in NAMES]
    return wire.AddPartitionsToTxnRequest([], "t", 1, 0, topics)


def add_partitions_of_broker(count: int) -> Message:
    wire = add_partitions_to_txn_request
    topics = [wire.AddPartitionsToTxnTopic(name, list(range(count))) for name in NAMES]
    return wire.AddPartitionsToTxnRequest([wire.AddPartitionsToTxnTransaction("t", 1, 0, False, topics)])


def names_of(count: int) -> list[str]:
    return [str(number) for number in range(count)]


VERSIONS: dict[Callable[[int], Message], int] = {
    produce: 12,
    offset_fetch: 9,
    offset_fetch_of_one: 7,
    offset_commit: 9,
    txn_offset_commit: 5,
    add_partitions: 3,
}
BUILDERS: tuple[Callable[[int], Message], ...] = (
    produce,
    list_offsets,
    offset_for_leader_epoch,
    delete_records,
    describe_producers,
    offset_fetch,
    offset_fetch_of_one,
    find_coordinator,
    lambda count: describe_groups_request.DescribeGroupsRequest(names_of(count)),
    lambda count: consumer_group_describe_request.ConsumerGroupDescribeRequest(names_of(count)),
    lambda count: delete_groups_request.DeleteGroupsRequest(names_of(count)),
    lambda count: describe_transactions_request.DescribeTransactionsRequest(names_of(count)),
    offset_commit,
    txn_offset_commit,
    offset_delete,
    write_txn_markers,
    alter_replica_log_dirs,
)
all_apis = pytest.mark.parametrize("build", BUILDERS, ids=lambda build: str(build(1).NAME))


def started() -> SimulatedBrokers:
    cluster = cluster_with_groups()
    cluster.create_topic("events", (1,), (1,), (1,))
    cluster.await_leader("events", 2)
    return cluster


class Requests:
    """Requests to one broker in parts of up to `max_items`, for a client with the rights of `authorizer`."""

    def __init__(
        self, cluster: SimulatedBrokers, max_items: int = PART, authorizer: Authorizer | None = None
    ) -> None:
        self.session = RecordingSession()
        self.counter = CallCounter()
        self.turns: list[Callable[[], None]] = []
        self._cluster = cluster
        self._max_items = max_items
        self._scheduler = SliceScheduler(self.turns.append, 100)
        self._authorization = RequestAuthorization(
            authorizer, ClusterImage, ScriptedRole(lambda: False), NodeStatistics(), self._scheduler.begin
        )

    def begin(self, message: Message, version: int) -> None:
        assert message.API_KEY is not None
        routes = [route for route in self._cluster.routes(1) if route.api_key == message.API_KEY]
        (route,) = self._authorization.guard(routes, BROKER_RULES)
        with self.counter.counted():
            handled_in_parts(route, self._scheduler, self._max_items)(
                self.session, request_of(message, version)
            )

    def finish(self) -> None:
        """Run the turns of the event loop."""
        while self.turns:
            with self.counter.counted():
                self.turns.pop(0)()

    def call(self, message: Message, version: int) -> Any:
        self.begin(message, version)
        self.finish()
        (response,) = self.session.responses
        return (
            response
            if isinstance(response, Message)
            else decode_response(request_of(message, version), response)
        )


def version_of(build: Callable[[int], Message]) -> int:
    key = build(1).API_KEY
    assert key is not None
    return VERSIONS.get(build, api(key).max_version)


@all_apis
def test_response_is_that_of_the_whole_request(build: Callable[[int], Message]) -> None:
    whole = Requests(started(), 1000).call(build(9), version_of(build))
    in_parts = Requests(started(), 4)
    assert in_parts.call(build(9), version_of(build)) == whole
    assert len(in_parts.session.held) == 1, "later requests wait"


def test_every_rule_is_tested() -> None:
    assert {build(1).API_KEY for build in BUILDERS} == set(BROKER_SPLIT_RULES)


@all_apis
def test_split_requests_are_decoded_and_encoded_in_steps(build: Callable[[int], Message]) -> None:
    """Otherwise one turn decodes all that the parts divide."""
    message, version = build(1), version_of(build)
    assert message.API_KEY is not None
    assert version in message.DECODE_IN_STEPS
    assert version in response_class(message.API_KEY).ENCODE_IN_STEPS


@all_apis
@pytest.mark.parametrize("authorizer", [None, authorizer_of()], ids=["open", "without rights"])
def test_turns_of_large_requests_are_bounded(
    build: Callable[[int], Message], authorizer: Authorizer | None
) -> None:
    """50,000 groups took 200 ms in one turn, and to check the client's rights on them as long."""
    cluster = started()
    longest = []
    for count in (2 * PART, 8 * PART):
        requests = Requests(cluster, authorizer=authorizer)
        response = requests.call(build(count), version_of(build))
        if authorizer is not None:
            assert errors_in(response)
        longest.append(requests.counter.longest)
    assert longest[1] <= 1.2 * longest[0]


@pytest.mark.parametrize("build", [add_partitions, add_partitions_of_broker], ids=["client", "broker"])
def test_too_many_partitions_for_a_transaction_are_refused(
    build: Callable[[int], Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = WHOLE_RULES[ApiKey.ADD_PARTITIONS_TO_TXN]._replace(max_items=4)
    monkeypatch.setitem(WHOLE_RULES, ApiKey.ADD_PARTITIONS_TO_TXN, rule)
    cluster = started()
    invalid = ErrorCode.INVALID_REQUEST
    assert invalid not in {
        error for error, _ in errors_in(Requests(cluster).call(build(2), version_of(build)))
    }
    response = Requests(cluster).call(build(5), version_of(build))
    errors = [error for error, _ in errors_in(response)]
    assert errors == [invalid] * (10 if build is add_partitions else 1)


def member_requests(count: int) -> list[tuple[Message, int]]:
    """Requests of members of groups with lists of `count` items, and their versions."""
    names = names_of(count)
    owned = consumer_group_heartbeat_request.TopicPartitions(KafkaUuid(bytes(16)), list(range(count)))
    heartbeat = consumer_group_heartbeat_request.ConsumerGroupHeartbeatRequest
    joining = join_group_request.JoinGroupRequest
    syncing = sync_group_request.SyncGroupRequest
    leaving = leave_group_request.LeaveGroupRequest
    return [
        (heartbeat("0", "m", 0, subscribed_topic_names=names, topic_partitions=[]), 1),
        (heartbeat("0", "m", 1, topic_partitions=[owned]), 1),
        (joining("0", protocols=[join_group_request.JoinGroupRequestProtocol(name) for name in names]), 9),
        (
            syncing("0", assignments=[sync_group_request.SyncGroupRequestAssignment(each) for each in names]),
            5,
        ),
        (leaving("0", members=[leave_group_request.MemberIdentity(name) for name in names]), 5),
    ]


@pytest.mark.parametrize("number", range(len(member_requests(1))))
def test_members_with_too_many_items_are_refused(number: int) -> None:
    """A member could subscribe to 300,000 topics in each heartbeat, whose rights were checked in one turn."""
    cluster = started()
    refused = []
    for count in (MAX_OF_MEMBER, MAX_OF_MEMBER + 1):
        message, version = member_requests(count)[number]
        assert message.API_KEY is not None
        assert version in message.DECODE_IN_STEPS
        refused.append(Requests(cluster).call(message, version).error_code == ErrorCode.INVALID_REQUEST)
    assert refused == [False, True]


def test_rights_of_a_member_are_checked_in_slices() -> None:
    cluster, longest = started(), []
    authorizer = authorizer_of(
        [allow(Operation.ALL, ResourceType.GROUP, "0"), allow(Operation.ALL, ResourceType.TOPIC, "*")]
    )
    for count in (2 * PART, 8 * PART):
        requests = Requests(cluster, authorizer=authorizer)
        message, version = member_requests(count)[0]
        requests.begin(message, version)
        longest.append(requests.counter.longest)
    assert longest[1] <= 1.2 * longest[0]


def test_transaction_gets_as_many_partitions_as_documented() -> None:
    refused = []
    for count in (MAX_PARTITIONS_ADDED // len(NAMES), MAX_PARTITIONS_ADDED // len(NAMES) + 1):
        response = Requests(started()).call(add_partitions(count), 3)
        refused.append(ErrorCode.INVALID_REQUEST in {error for error, _ in errors_in(response)})
    assert refused == [False, True]


@pytest.mark.parametrize("max_items", [1, 1000])
@pytest.mark.parametrize("build", [each for each in BUILDERS if each(1).API_KEY in DESCRIBED_ONCE])
def test_repeated_items_are_described_once(build: Callable[[int], Message], max_items: int) -> None:
    """A group with large members takes megabytes: 40,000 mentions of it fit into a request. So do 200,000 mentions of
    a partition, each of which gets 4 KiB of metadata with its offset."""
    repeated = build(3)
    assert repeated.API_KEY is not None
    for levels in DESCRIBED_ONCE[repeated.API_KEY]:
        repeat_items(repeated, [field for field, _ in levels])
    version = version_of(build)
    once = Requests(started(), 1000).call(build(3), version)
    requests = Requests(started(), max_items)
    assert requests.call(repeated, version) == once


def repeat_items(owner: Any, path: list[str]) -> None:
    """Name each item of the lists on this path twice."""
    items = getattr(owner, path[0]) or []
    for item in items if path[1:] else ():
        repeat_items(item, path[1:])
    items += deepcopy(items)


def test_groups_with_all_their_offsets_are_in_parts_of_their_own() -> None:
    """Each may have thousands of offsets."""
    wire = offset_fetch_request
    groups = [wire.OffsetFetchRequestGroup(name, None, -1, None) for name in names_of(3)]
    rule = BROKER_SPLIT_RULES[ApiKey.OFFSET_FETCH][0]
    assert parts_of_lists(wire.OffsetFetchRequest(groups=groups[:1]), rule, 100) is None
    parts = parts_of_lists(wire.OffsetFetchRequest(groups=groups), rule, 100)
    assert parts is not None
    found: list[Any] = [part.message for part in parts]
    assert [[each.group_id for each in message.groups] for message in found] == [["0"], ["1"], ["2"]]


def test_produce_without_acks_gets_no_response() -> None:
    requests = Requests(started(), 1)
    requests.begin(produce(3, 0, ["events"]), 12)
    requests.finish()
    assert len(requests.session.completed) == 1
    assert not requests.session.responses


def test_parts_end_with_the_connection() -> None:
    cluster = started()
    requests = Requests(cluster, 1)
    requests.begin(produce(3), 12)
    (on_unblocked,) = requests.session.on_unblocked
    on_unblocked()
    requests.finish()
    ends = [log.log.end_offset for log in (cluster.hosted(1, "events", number) for number in range(3)) if log]
    assert ends == [1, 0, 0]
    assert not requests.session.responses


def test_nodes_handle_requests_to_their_brokers_in_parts() -> None:
    """A partition that is named twice is an error only within a part."""
    cluster = BrokerCluster()
    cluster.start_node(1, broker=broker_role(1))
    node = cluster.nodes[1]
    cluster.run_until(lambda: node.broker and node.broker.state is BrokerState.RUNNING)
    client = Client(cluster, 1, "client", CLIENT_PORT)
    wire = list_offsets_request
    for count, error in ((1, ErrorCode.INVALID_REQUEST), (PART, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        partitions = [wire.ListOffsetsPartition(number, -1, -1) for number in (*range(count), 0)]
        message = wire.ListOffsetsRequest(-1, topics=[wire.ListOffsetsTopic("missing", partitions)])
        (topic,) = client.request(message, 11).topics
        assert len(topic.partitions) == count + 1
        assert topic.partitions[-1].error_code == error
