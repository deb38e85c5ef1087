"""Checkers of the controller's responses and of liveness report violations."""

from __future__ import annotations

from quorumd.broker.replication.isr_proposal import CommittedIsr, IsrProposal
from quorumd.broker.replication.replica import Replica
from quorumd.controller.broker import Broker
from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import (
    alter_partition_reassignments_request,
    alter_partition_reassignments_response,
)
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from quorumd.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest
from quorumd.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
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
from quorumd.simulator.brokers.checkers import liveness, responses
from quorumd.simulator.brokers.cluster_view import ClusterView, PartitionChange
from quorumd.simulator.brokers.data_log import DataLog
from tests.support.simulator.broker_views import (
    NAME,
    TOPIC,
    WHERE,
    breaks,
    broker,
    commit,
    host,
    row,
    view_with,
)
from tests.support.text import shows


def test_of_proposals() -> None:
    checker, view = responses.ResponsesAreCommitted(), view_with(row((1, 2), partition_epoch=5))
    proposal = IsrProposal(WHERE, 0, 4, ((1, 10), (2, 20)))

    def is_reported(isr: tuple[int, ...], partition_epoch: int) -> bool:
        committed = CommittedIsr(1, 0, isr, partition_epoch)
        look = checker.proposal_completed
        return breaks(look, view, view.brokers[1], proposal, ErrorCode.NONE, committed)

    assert not is_reported((2, 1), 5)
    assert not is_reported((1, 3), 4)
    assert is_reported((1, 2), 6)
    assert is_reported((1, 3), 5)


def test_of_brokers() -> None:
    checker, view = responses.ResponsesAreCommitted(), view_with(None, broker(1), broker(2, is_fenced=True))
    assert not breaks(checker.registration_completed, view, view.brokers[1])
    view.brokers[1].epoch = 11
    assert breaks(checker.registration_completed, view, view.brokers[1])
    unfenced = BrokerHeartbeatResponse(0, 0, True, False, False)
    checker.batch_committed(view, [])
    view.brokers[1].epoch = 10
    assert not breaks(checker.heartbeat_completed, view, view.brokers[1], unfenced)
    assert breaks(checker.heartbeat_completed, view, view.brokers[2], unfenced)
    view.unregistered[2, view.brokers[2].epoch] = None
    assert not breaks(checker.heartbeat_completed, view, view.brokers[2], unfenced), "in the same batch"


def test_of_topics() -> None:
    checker, view = responses.ResponsesAreCommitted(), view_with(row())
    created = CreateTopicsResponse(0, [CreatableTopicResult(NAME, TOPIC)])
    assert breaks(checker.admin_request_completed, view, CreateTopicsRequest(), created)
    checker.partition_changed(view, PartitionChange(WHERE, None, row(), True, 1))
    assert not breaks(checker.admin_request_completed, view, CreateTopicsRequest(), created)
    deleted = DeleteTopicsResponse(0, [DeletableTopicResult(NAME, TOPIC)])
    assert breaks(checker.admin_request_completed, view, DeleteTopicsRequest(), deleted)
    del view.image.topics[TOPIC]
    assert not breaks(checker.admin_request_completed, view, DeleteTopicsRequest(), deleted)


def test_of_metadata() -> None:
    checker = responses.MetadataResponsesAreCommitted()
    view = view_with(row(), broker(1), broker(2, is_fenced=True))
    checker.batch_committed(view, [])
    checker.partition_changed(view, PartitionChange(WHERE, None, row(), True, 1))

    def is_reported(*partitions: MetadataResponsePartition, broker_id: int = 1) -> bool:
        response = MetadataResponse(0, [MetadataResponseBroker(7), MetadataResponseBroker(broker_id)])
        response.topics.append(MetadataResponseTopic(0, NAME, TOPIC, False, list(partitions)))
        return breaks(checker.metadata_received, view, response)

    committed = MetadataResponsePartition(0, 0, 1, 0, [1, 2, 3], [1, 2])
    assert not is_reported(committed)
    assert is_reported(committed, committed)
    assert is_reported(MetadataResponsePartition(0, 0, 1, 1, [1, 2, 3], [1, 2]))
    assert is_reported(committed, broker_id=2)
    assert breaks(checker.metadata_lost, view, 1)


def test_of_reassignments() -> None:
    checker, view = responses.ResponsesAreCommitted(), view_with(row())
    moving = OngoingPartitionReassignment(0, [1, 2, 3], [1], [3])
    listed = ListPartitionReassignmentsResponse(0, 0, None, [OngoingTopicReassignment(NAME, [moving])])
    request = ListPartitionReassignmentsRequest()
    assert breaks(checker.admin_request_completed, view, request, listed)
    checker.partition_changed(view, PartitionChange(WHERE, row(), row(adding=(1,), removing=(3,)), True, 1))
    assert not breaks(checker.admin_request_completed, view, request, listed)


def test_live_brokers_keep_their_epoch() -> None:
    checker, view = responses.RunningBrokersKeepTheirEpoch(), view_with()
    stale = BrokerHeartbeatResponse(0, int(ErrorCode.STALE_BROKER_EPOCH))
    view.incarnations[view.image.brokers[1].incarnation_id] = 1
    assert breaks(checker.heartbeat_completed, view, view.brokers[1], stale)
    view.brokers[1].incarnation = 2
    assert not breaks(checker.heartbeat_completed, view, view.brokers[1], stale)
    assert not breaks(checker.heartbeat_completed, view, view.brokers[1], BrokerHeartbeatResponse())


def test_brokers_that_may_shut_down() -> None:
    checker = responses.ShutdownBrokersLeadNothing()
    go = BrokerHeartbeatResponse(0, 0, True, True, True)
    view = view_with(row())
    assert breaks(checker.heartbeat_completed, view, view.brokers[1], go)
    assert not breaks(checker.heartbeat_completed, view, view.brokers[2], go)


def test_producer_ids() -> None:
    checker, view = responses.ProducerIdsAreUnique(), view_with()
    view.image._scalars["next producer id"] = 2000

    def given(start: int) -> bool:
        response = AllocateProducerIdsResponse(0, 0, start, 1000)
        return breaks(checker.admin_request_completed, view, AllocateProducerIdsRequest(), response)

    assert not given(0)
    assert given(999)
    assert not given(1000)
    assert given(2000)


def test_live_brokers_are_not_fenced() -> None:
    checker, view = responses.LiveBrokersAreNotFenced(), view_with()
    view.now_ms, view.shortest_session_ms, view.leads_since[4] = 1000.0, 100.0, 0.0
    seen = view.brokers[1]
    assert not breaks(checker.fenced, view, seen, 4)
    seen.heartbeat_ms, seen.heartbeat_leader_epoch = 950.0, 4
    assert breaks(checker.fenced, view, seen, 4)
    seen.heartbeat_leader_epoch = 3
    assert not breaks(checker.fenced, view, seen, 4)
    view.leads_since[5] = 950.0
    assert breaks(checker.fenced, view, seen, 5)
    seen.may_request_fence = True
    assert not breaks(checker.fenced, view, seen, 5)


def test_pauses_of_the_leader_do_not_count() -> None:
    checker, view = responses.LiveBrokersAreNotFenced(), view_with()
    view.now_ms, view.shortest_session_ms, view.leads_since[4] = 1000.0, 100.0, 0.0
    seen = view.brokers[1]
    seen.heartbeat_ms, seen.heartbeat_leader_epoch = 850.0, 4
    assert not breaks(checker.fenced, view, seen, 4)
    view.leader_paused_ms[4] = 80.0
    assert breaks(checker.fenced, view, seen, 4)
    seen.leader_paused_ms = 80.0
    assert not breaks(checker.fenced, view, seen, 4), "that pause was before the heartbeat"


def test_drained_broker_waits_for_its_followers() -> None:
    checker, view = responses.ShutdownsAreKnownToFollowers(), view_with(row((2, 3), 2))
    view.image.brokers[1] = broker(1, in_controlled_shutdown=True)
    host(view, 2, known=row((2, 3), 2))
    replica = host(view, 3, known=row((1, 2, 3), 1))
    go = BrokerHeartbeatResponse(should_shut_down=True)
    assert breaks(checker.heartbeat_completed, view, view.brokers[1], go)
    assert not breaks(checker.heartbeat_completed, view, view.brokers[1], BrokerHeartbeatResponse())
    replica.metadata = row((2, 3), 2)
    assert not breaks(checker.heartbeat_completed, view, view.brokers[1], go)
    replica.metadata = row((1, 2, 3), 1)
    view.image.brokers[3] = broker(3, is_fenced=True)
    assert not breaks(checker.heartbeat_completed, view, view.brokers[1], go), "it is not active"
    view.image.brokers[1] = broker(1, is_fenced=True, in_controlled_shutdown=True)
    checker.fenced(view, view.brokers[1], 4)
    view.image.brokers[3] = broker(3)
    assert not breaks(checker.heartbeat_completed, view, view.brokers[1], go), "it is active only now"
    checker.fenced(view, view.brokers[1], 4)
    assert breaks(checker.heartbeat_completed, view, view.brokers[1], go)


def test_silent_broker_is_fenced_within_two_sessions() -> None:
    checker, view = responses.SilentBrokersAreFenced(), view_with()
    view.longest_session_ms = 100.0
    view.brokers[2].runs, view.brokers[2].ended_ms = False, 0.0

    def is_reported(now_ms: float, epoch: int = 4) -> bool:
        view.now_ms, view.brokers[1].heartbeat_leader_epoch = now_ms, epoch
        return breaks(checker.heartbeat_completed, view, view.brokers[1], BrokerHeartbeatResponse())

    assert [is_reported(each) for each in range(10, 210, 20)] == [False] * 10
    assert is_reported(211.0)
    view.brokers[2].awaits_heartbeat_response = True
    assert not is_reported(213.0), "its last heartbeat may arrive now"
    view.brokers[2].awaits_heartbeat_response = False
    assert is_reported(215.0)
    assert not is_reported(220.0, epoch=5), "another leader begins with whole sessions"
    assert [is_reported(each, 5) for each in (260.0, 300.0, 360.0, 450.0)] == [False] * 4, (
        "it was silent itself"
    )
    view.image.brokers[2] = broker(2, is_fenced=True)
    assert not any(is_reported(each, 5) for each in range(460, 1000, 40))


class TestLiveness:
    def whole(self) -> tuple[ClusterView, list[Replica[DataLog]]]:
        view = view_with(row((1, 2, 3)))
        records = commit(view, 2)
        hosted = [host(view, n, *(record.value for record in records), leads=n == 1) for n in (1, 2, 3)]
        return view, hosted

    def test_nothing_is_missing(self) -> None:
        assert liveness.missing(self.whole()[0]) == ""

    def test_brokers_run_unfenced(self) -> None:
        view, _ = self.whole()
        view.image.brokers[2] = broker(2, is_fenced=True)
        assert "broker 2 does not run" in liveness.missing(view)
        view.image.brokers[2] = broker(2, epoch=21)
        assert "broker 2 does not run" in liveness.missing(view)

    def test_proposals_end(self) -> None:
        view, (leads, _, _) = self.whole()
        assert leads.leadership is not None
        leads.leadership.proposal = IsrProposal(WHERE, 0, 0, ())
        assert shows(liveness.missing(view), "response", "orders-0")

    def test_brokers_know_what_is_committed(self) -> None:
        view, (_, _, follows) = self.whole()
        follows.metadata = row((1, 2, 3), partition_epoch=7)
        assert "broker 3 has Partition" in liveness.missing(view)

    def test_writes_have_outcomes(self) -> None:
        view, _ = self.whole()
        view.history(WHERE).waiting[5] = None
        assert "the writes [5] to orders-0" in liveness.missing(view)

    def test_records_are_replicated(self) -> None:
        view, (_, _, follows) = self.whole()
        follows.log.truncate(1)
        assert shows(liveness.missing(view), "broker 3", "committed records", "orders-0")

    def test_leaderless_partitions_are_not_replicated(self) -> None:
        view, replicas = self.whole()
        replicas[2].log.truncate(1)
        alone = row((), NO_LEADER, last_known_elr=(9,))
        view.image.topics[TOPIC].partitions[0] = alone
        for replica in replicas:
            replica.resign()
            replica.metadata = alone
        assert liveness.missing(view) == ""

    def test_reassignments_complete_and_all_replicas_join(self) -> None:
        view, _ = self.whole()
        view.image.topics[TOPIC].partitions[0] = row((1, 2))
        assert shows(liveness.missing(view), "orders-0", "in sync")
        view.image.topics[TOPIC].partitions[0] = moving = row((1, 2), adding=(3,))
        view.image.index.update(WHERE, None, moving, [])
        assert shows(liveness.missing(view), "reassignment", "orders-0")

    def test_partition_with_an_electable_replica_has_a_leader(self) -> None:
        view, _ = self.whole()
        for partition, is_missing in (
            (row((), NO_LEADER, elr=(2,)), True),
            (row((), NO_LEADER, last_known_elr=(2,)), True),
            (row((), NO_LEADER, last_known_elr=(9,)), False),
        ):
            view.image.topics[TOPIC].partitions[0] = partition
            assert ("orders-0 has no leader" in liveness.all_replicas_in_sync(view)) == is_missing


def test_drains_without_progress() -> None:
    draining = broker(1)._replace(in_controlled_shutdown=True)
    response = BrokerHeartbeatResponse(0, 0, True, False, False)

    def heartbeats(*rows: Partition | None, known: Broker = draining) -> bool:
        """Whether anything is wrong when these rows are committed before one heartbeat after the other."""
        checker = responses.ControlledShutdownProgresses()
        scenes = [view_with(each, known, broker(2)) for each in rows]
        return [breaks(checker.heartbeat_completed, view, view.brokers[1], response) for view in scenes][-1]

    led, left, gone = row((1, 2)), row((1, 2), leader=2), row((2,), leader=2)
    assert heartbeats(led, led)
    assert heartbeats(led, led, known=broker(1)) is False
    assert not heartbeats(led, gone)
    assert not heartbeats(led, left)
    assert not heartbeats(left, left)
    assert not heartbeats(led)


def test_cancelled_reassignments() -> None:
    wanted, wire = alter_partition_reassignments_request, alter_partition_reassignments_response

    def is_broken_by(
        target: list[int] | None, error: int, original: tuple[int, ...] = (1, 2), known: Broker | None = None
    ) -> bool:
        view = view_with(
            row((1,), replicas=(4, 1, 2), adding=(4,), original=original), *([known] if known else [])
        )
        topics = [wanted.ReassignableTopic(NAME, [wanted.ReassignablePartition(0, target)])]
        request = wanted.AlterPartitionReassignmentsRequest(1, True, topics)
        partitions = [wire.ReassignablePartitionResponse(0, error, None)]
        response = wire.AlterPartitionReassignmentsResponse(
            0, True, 0, None, [wire.ReassignableTopicResponse(NAME, partitions)]
        )
        return breaks(responses.ReassignmentsCanBeReverted().admin_request_completed, view, request, response)

    refused = int(ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert is_broken_by([1, 2], refused)
    assert not is_broken_by([1, 2], 0)
    assert not is_broken_by(None, refused)
    assert not is_broken_by([2, 3], refused)
    assert not is_broken_by([1, 2], refused, (2, 1))
    directories = (KafkaUuid(b"1" * 16), KafkaUuid(b"2" * 16))
    some, both = (
        broker(2)._replace(directories=directories, cordoned=directories[:count]) for count in (1, 2)
    )
    assert is_broken_by([1, 2], refused, known=some)
    assert not is_broken_by([1, 2], refused, known=both)
