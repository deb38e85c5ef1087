"""The committed state over time, and responses that differ from it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.api_versions_response import ApiVersionsResponse, FinalizedFeatureKey
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from quorumd.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from quorumd.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.committed_state import (
    PARTITION,
    BrokerState,
    CommittedState,
    PartitionState,
    broker_key,
    feature_key,
    partition_key,
    topic_key,
)
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable
from quorumd.simulator.checkers.reads import ReadsAreCommitted

TOPIC_ID = KafkaUuid(b"a topic's own id")
FIRST, SECOND = KafkaUuid(b"directory number"), KafkaUuid(b"directory second")
PROCESS = (1, 1)


class ReadsHarness:
    """Two brokers with a directory each, and a topic with one partition that they replicate, at offset 4."""

    def __init__(self) -> None:
        self.log = CommittedDataIsImmutable()
        self.state = CommittedState(self.log)
        self.checker = ReadsAreCommitted(self.state)
        self.commit(
            RegisterBrokerRecord(101, broker_epoch=0, fenced=False, log_dirs=[FIRST]),
            RegisterBrokerRecord(102, broker_epoch=1, fenced=False, log_dirs=[SECOND]),
            TopicRecord("t", TOPIC_ID),
            PartitionRecord(
                0, TOPIC_ID, [101, 102], [101, 102], leader=101, leader_epoch=0, directories=[FIRST, SECOND]
            ),
        )

    def commit(self, *records: Message) -> None:
        self.state.apply(self.log.end_offset, records)
        self.log.end_offset += len(records)

    def change(self, **fields: object) -> None:
        self.commit(PartitionChangeRecord(0, TOPIC_ID, **fields))  # type: ignore[arg-type]  # mixed values

    def respond(self, message: Message, requested_at: int = 0) -> None:
        self.checker.responded(message, PROCESS, requested_at)

    def partition(self) -> PartitionState:
        found = self.state.value_at(partition_key(str(TOPIC_ID), 0), self.log.end_offset)
        assert isinstance(found, PartitionState)
        return found


@pytest.fixture
def harness() -> ReadsHarness:
    return ReadsHarness()


def metadata(
    isr: Sequence[int] = (101, 102),
    *,
    leader: int = 101,
    leader_epoch: int = 0,
    offline: Sequence[int] = (),
    brokers: Sequence[int] = (1, 101, 102),
    topics: bool = True,
) -> MetadataResponse:
    row = MetadataResponsePartition(0, 0, leader, leader_epoch, [101, 102], list(isr), list(offline))
    return MetadataResponse(
        brokers=[MetadataResponseBroker(broker, "h", 1) for broker in brokers],
        topics=[MetadataResponseTopic(0, "t", TOPIC_ID, False, [row])] if topics else [],
    )


def described(isr: Sequence[int], offline: Sequence[int], elr: Sequence[int] = ()) -> Message:
    row = DescribeTopicPartitionsResponsePartition(
        0, 0, 101, 0, [101, 102], list(isr), list(elr), [], list(offline)
    )
    topic = DescribeTopicPartitionsResponseTopic(0, "t", TOPIC_ID, False, [row])
    return DescribeTopicPartitionsResponse(0, [topic])


def quorum(high_watermark: int) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[TopicData("__cluster_metadata", [PartitionData(0, 0, None, 1, 5, high_watermark)])]
    )


def reassignments(adding: Sequence[int] | None) -> ListPartitionReassignmentsResponse:
    if adding is None:
        return ListPartitionReassignmentsResponse()
    part = OngoingPartitionReassignment(0, [101, 102, *adding], list(adding), [])
    return ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment("t", [part])])


def test_state_follows_every_kind_of_record(harness: ReadsHarness) -> None:
    harness.change(isr=[101], leader=101, eligible_leader_replicas=[102], last_known_elr=[102])
    row = harness.partition()
    assert (row.leader_epoch, row.isr, row.elr, row.last_known_elr) == (1, (101,), (102,), (102,))
    harness.commit(ClearElrRecord(""), FeatureLevelRecord("f", 2))
    assert (harness.partition().elr, harness.partition().last_known_elr) == ((), ())
    harness.commit(
        FenceBrokerRecord(101, 0), BrokerRegistrationChangeRecord(102, 1, fenced=1, log_dirs=[FIRST])
    )
    end = harness.log.end_offset
    assert harness.state.value_at(feature_key("f"), end) == 2
    assert harness.state.value_at(broker_key(101), end) == BrokerState(0, True, "", (FIRST,))
    assert harness.state.value_at(broker_key(102), end) == BrokerState(1, True, "", (FIRST,))
    harness.commit(RemoveTopicRecord(TOPIC_ID), UnregisterBrokerRecord(101, 0), FeatureLevelRecord("f", 0))
    end = harness.log.end_offset
    keys = [topic_key("t"), partition_key(str(TOPIC_ID), 0), broker_key(101), feature_key("f")]
    assert [harness.state.value_at(key, end) for key in keys] == [None] * 4
    assert harness.state.keys(PARTITION, end) == []


def test_metadata_may_be_stale_but_never_goes_back(harness: ReadsHarness) -> None:
    harness.change(isr=[101])
    harness.respond(metadata())
    harness.respond(metadata([101]))
    with pytest.raises(InvariantViolation, match=r"\b5 to 5\b"):
        harness.respond(metadata())


def test_another_process_may_show_an_earlier_state(harness: ReadsHarness) -> None:
    harness.change(isr=[101])
    harness.respond(metadata([101]))
    harness.checker.responded(metadata(), (1, 2), 0)
    harness.checker.responded(metadata(), None, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        metadata([102]),
        metadata(leader=102),
        metadata(leader=-1),
        metadata(leader_epoch=1),
        metadata(brokers=[1, 101]),
        metadata(topics=False),
    ],
    ids=["isr", "leader", "no leader", "epoch", "broker", "topic"],
)
def test_metadata_that_was_never_committed_is_a_violation(
    harness: ReadsHarness, wrong: MetadataResponse
) -> None:
    harness.respond(metadata())
    with pytest.raises(InvariantViolation, match="MetadataResponse"):
        harness.respond(wrong)


def test_brokers_that_are_fenced_are_not_listed_as_online(harness: ReadsHarness) -> None:
    harness.commit(FenceBrokerRecord(102, 1))
    harness.respond(metadata(offline=[102], brokers=[1, 101]))
    with pytest.raises(InvariantViolation):
        harness.respond(metadata(brokers=[1, 101]))


def test_leader_that_was_unregistered_is_reported_as_none(harness: ReadsHarness) -> None:
    harness.commit(UnregisterBrokerRecord(101, 0))
    harness.respond(metadata(leader=-1, offline=[101], brokers=[1, 102]))


def test_replicas_in_lost_directories_are_offline(harness: ReadsHarness) -> None:
    harness.respond(described([101, 102], []))
    harness.commit(BrokerRegistrationChangeRecord(102, 1, log_dirs=[ZERO_UUID]))
    harness.respond(described([101, 102], [102]))
    with pytest.raises(InvariantViolation, match="offline"):
        harness.respond(described([101, 102], []))


def test_elr_that_was_never_committed_is_a_violation(harness: ReadsHarness) -> None:
    with pytest.raises(InvariantViolation, match="t-0"):
        harness.respond(described([101, 102], [], elr=[102]))


def test_describe_cluster_lists_every_registered_broker(harness: ReadsHarness) -> None:
    harness.commit(FenceBrokerRecord(102, 1))
    both = [DescribeClusterBroker(101), DescribeClusterBroker(102, is_fenced=True)]
    harness.respond(DescribeClusterResponse(brokers=both))
    for wrong in (both[:1], [both[0], DescribeClusterBroker(102)]):
        with pytest.raises(InvariantViolation, match="broker 102"):
            harness.respond(DescribeClusterResponse(brokers=wrong))


def test_finalized_features_are_those_at_their_epoch(harness: ReadsHarness) -> None:
    harness.commit(FeatureLevelRecord("f", 1))
    level = [FinalizedFeatureKey("f", 1, 1)]
    harness.respond(ApiVersionsResponse(finalized_features_epoch=4))
    harness.respond(ApiVersionsResponse(finalized_features=level, finalized_features_epoch=5))
    with pytest.raises(InvariantViolation, match=r"finalized features .*4"):
        harness.respond(ApiVersionsResponse(finalized_features=level, finalized_features_epoch=4))
    with pytest.raises(InvariantViolation, match=r"finalized features .*6"):
        harness.respond(ApiVersionsResponse(finalized_features=level, finalized_features_epoch=6))
    with pytest.raises(InvariantViolation, match="f is 2"):
        harness.respond(ApiVersionsResponse(finalized_features=[FinalizedFeatureKey("f", 2, 2)]))


def test_listed_reassignments_are_those_since_the_request(harness: ReadsHarness) -> None:
    harness.change(replicas=[101, 102, 103], adding_replicas=[103])
    harness.respond(reassignments([103]), requested_at=5)
    harness.respond(reassignments(None), requested_at=4)
    with pytest.raises(InvariantViolation, match="t-0 is None"):
        harness.respond(reassignments(None), requested_at=5)
    with pytest.raises(InvariantViolation, match="t-0 is"):
        harness.respond(reassignments([104]), requested_at=4)


def test_high_watermark_of_a_leader_is_committed_and_never_decreases(harness: ReadsHarness) -> None:
    harness.respond(quorum(2))
    harness.respond(quorum(4))
    with pytest.raises(InvariantViolation, match="after 4"):
        harness.respond(quorum(3))
    with pytest.raises(InvariantViolation, match="below 4"):
        harness.respond(quorum(5))


def test_difference_from_the_current_state_is_described(harness: ReadsHarness) -> None:
    harness.change(isr=[101])
    assert harness.checker.first_difference(metadata([101]), 5) == ""
    assert "t-0" in harness.checker.first_difference(metadata(), 5)
