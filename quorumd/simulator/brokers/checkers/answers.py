"""What the controller may answer: nothing that is not committed, and nothing twice."""

from __future__ import annotations

from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from quorumd.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from quorumd.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from quorumd.protocol.messages.delete_topics_response import DeleteTopicsResponse
from quorumd.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.checkers.base import BrokerChecker
from quorumd.simulator.brokers.replica import Proposal
from quorumd.simulator.brokers.scene import RowChange, Scene, SeenBroker


class AnswersAreCommitted(BrokerChecker):
    """What an answer tells of is in the log for good before anybody hears of it."""

    promise = "the controller answers what is committed"

    def __init__(self) -> None:
        self._topics: dict[object, None] = {}
        self._deleted: dict[object, None] = {}
        self._reassigned: dict[tuple[str, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]], None] = {}
        self._unfenced: dict[tuple[int, int], None] = {}

    def row_changed(self, scene: Scene, change: RowChange) -> None:
        where, after = change.where, change.after
        if after is None:
            self._deleted[where.topic_id] = None
            return
        self._topics[where.topic_id] = None
        if after.is_reassigning:
            name = scene.image.topics[where.topic_id].name
            self._reassigned[name, where.number, after.replicas, after.adding, after.removing] = None

    def batch_committed(self, scene: Scene, changed: object) -> None:
        for broker in scene.image.brokers.values():
            if not broker.is_fenced:
                self._unfenced[broker.id, broker.epoch] = None

    def proposal_answered(
        self, scene: Scene, broker: SeenBroker, proposal: Proposal, error: ErrorCode, answer: Partition | None
    ) -> None:
        row = scene.row(proposal.where)
        if answer is None or row is None:
            return
        if answer.partition_epoch > row.partition_epoch:
            raise self.broken(f"broker {broker.id} was told {answer!r}, committed is {row!r}")
        if answer.partition_epoch == row.partition_epoch and set(answer.isr) != set(row.isr):
            raise self.broken(f"broker {broker.id} was told {answer!r}, committed is {row!r}")

    def registration_answered(self, scene: Scene, broker: SeenBroker) -> None:
        known = scene.image.brokers.get(broker.id)
        if known is None or known.epoch < broker.epoch:
            raise self.broken(
                f"broker {broker.id} was given the epoch {broker.epoch}, committed is {known!r}"
            )

    def heartbeat_answered(self, scene: Scene, broker: SeenBroker, answer: BrokerHeartbeatResponse) -> None:
        if not answer.error_code and not answer.is_fenced and (broker.id, broker.epoch) not in self._unfenced:
            raise self.broken(f"broker {broker.id} was told that it is not fenced")

    def admin_answered(self, scene: Scene, request: Message, answer: Message) -> None:
        if isinstance(answer, CreateTopicsResponse):
            for created in answer.topics:
                if not created.error_code and created.topic_id not in self._topics:
                    raise self.broken(f"topic {created.name} ({created.topic_id}) is not there")
        elif isinstance(answer, DeleteTopicsResponse):
            for deleted in answer.responses:
                if not deleted.error_code and deleted.topic_id in scene.image.topics:
                    raise self.broken(f"topic {deleted.name} ({deleted.topic_id}) is still there")
        elif isinstance(answer, ListPartitionReassignmentsResponse):
            for topic in answer.topics:
                for part in topic.partitions:
                    told = (topic.name, part.partition_index, tuple(part.replicas), tuple(part.adding_replicas),
                            tuple(part.removing_replicas))  # fmt: skip
                    if told not in self._reassigned:
                        raise self.broken(f"there never was the reassignment {told}")


class LiveBrokersKeepTheirEpoch(BrokerChecker):
    """Nobody else registers under the id of a broker that runs, but for a request of an earlier start of it that was
    late: nothing tells the controller which of the two is the newer one (S14, race R22)."""

    promise = "a registered broker's epoch stays good as long as it lives"

    def heartbeat_answered(self, scene: Scene, broker: SeenBroker, answer: BrokerHeartbeatResponse) -> None:
        known = scene.image.brokers.get(broker.id)
        is_late = known is not None and scene.lives.get(known.incarnation_id, 0) < broker.life
        if answer.error_code == ErrorCode.STALE_BROKER_EPOCH and broker.runs and not is_late:
            raise self.broken(f"broker {broker.id} lives with epoch {broker.epoch}: {scene.image.brokers}")


class WhoMayGoLeadsNothing(BrokerChecker):
    """The controller lets a broker go when others lead what it led (KIP-631)."""

    promise = "a broker that may go leads nothing"

    def heartbeat_answered(self, scene: Scene, broker: SeenBroker, answer: BrokerHeartbeatResponse) -> None:
        if not answer.should_shut_down or not scene.is_up(broker.id):
            return
        for topic in scene.image.topics.values():
            for number, row in topic.partitions.items():
                if row.leader == broker.id:
                    raise self.broken(f"broker {broker.id} leads {topic.name}-{number}: {row!r}")


class DrainsGoOn(BrokerChecker):
    """Every heartbeat of a broker that waits to be let go takes something from it as long as it leads anything,
    whoever began with that: else it would wait until it loses patience (KIP-631)."""

    promise = "a broker that wants to go leads less with every heartbeat"

    def __init__(self) -> None:
        self._left: dict[int, tuple[int, int, int]] = {}
        """By broker: its epoch, what it leads, and in how many ISRs it is."""

    def heartbeat_answered(self, scene: Scene, broker: SeenBroker, answer: BrokerHeartbeatResponse) -> None:
        known = scene.image.brokers.get(broker.id)
        if answer.error_code or known is None or not known.in_controlled_shutdown or known.is_fenced:
            return
        rows = [row for topic in scene.image.topics.values() for row in topic.partitions.values()]
        led = sum(row.leader == broker.id for row in rows)
        in_sync = sum(broker.id in row.isr for row in rows)
        epoch, led_before, in_sync_before = self._left.get(broker.id, (-1, 0, 0))
        self._left[broker.id] = (known.epoch, led, in_sync)
        if epoch == known.epoch and led_before and led + in_sync >= led_before + in_sync_before:
            raise self.broken(f"broker {broker.id} leads {led} partitions, as many as before: {known!r}")


class ProducerIdsAreGivenOnce(BrokerChecker):
    """No two blocks overlap, and none was given before that was committed (KIP-730)."""

    promise = "every producer id is given once"

    def __init__(self) -> None:
        self._given: list[tuple[int, int]] = []

    def admin_answered(self, scene: Scene, request: Message, answer: Message) -> None:
        if not isinstance(answer, AllocateProducerIdsResponse) or answer.error_code:
            return
        start, end = answer.producer_id_start, answer.producer_id_start + answer.producer_id_len
        for first, last in self._given:
            if start < last and first < end:
                raise self.broken(f"{start} to {end - 1} were given, and {first} to {last - 1} before")
        if end > scene.image.next_producer_id:
            raise self.broken(f"{start} to {end - 1} were given, committed is {scene.image.next_producer_id}")
        self._given.append((start, end))


class WhoIsHeardOfIsNotFenced(BrokerChecker):
    """A leader that has answered a heartbeat, and still leads, waits a whole session; so does one that has only begun
    to lead, and cannot have heard of anybody (KIP-631)."""

    promise = "a broker that is heard of is not fenced"

    def fenced(self, scene: Scene, broker: SeenBroker, leader_epoch: int) -> None:
        if broker.may_want_fence:
            return
        since_ms = scene.leads_since.get(leader_epoch, 0.0)
        if broker.runs and broker.heard_in == leader_epoch:
            since_ms = max(since_ms, broker.heard_ms)
        silent_ms = scene.now_ms - since_ms
        if silent_ms < scene.shortest_session_ms:
            raise self.broken(
                f"broker {broker.id} is fenced {silent_ms:.0f} ms after its last heartbeat that was answered, or the "
                f"beginning of the leader; sessions are {scene.shortest_session_ms:.0f} ms or longer"
            )


class TheWayBackIsOpen(BrokerChecker):
    """A cancel may be refused, since it would drop replicas that have what others lack. Then a reassignment to the
    replicas from before goes back."""

    promise = "a reassignment can always go back to its originals"

    def admin_answered(self, scene: Scene, request: Message, answer: Message) -> None:
        if not isinstance(request, AlterPartitionReassignmentsRequest) or not isinstance(
            answer, AlterPartitionReassignmentsResponse
        ):
            return
        refused = {
            (topic.name, told.partition_index): told
            for topic in answer.responses
            for told in topic.partitions
            if told.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        }
        for asked in request.topics:
            topic = scene.image.topic_named(asked.name)
            for wanted in asked.partitions:
                row = topic.partitions.get(wanted.partition_index) if topic is not None else None
                told = refused.get((asked.name, wanted.partition_index))
                if row is None or told is None or wanted.replicas is None or not row.is_reassigning:
                    continue
                if tuple(wanted.replicas) == row.original:
                    raise self.broken(f"{asked.name}-{wanted.partition_index}, {row!r}: {told!r}")


class ToldTopicsAreCommitted(BrokerChecker):
    """What clients are told of topics, however large, was so at some time: each partition once, and each a committed
    one, and brokers that are there. Requests on one connection are answered in their order, an error at once."""

    promise = "clients are told of whole topics, as they are committed"

    def __init__(self) -> None:
        self._rows: dict[tuple[object, int, int, tuple[int, ...], tuple[int, ...]], None] = {}
        self._unfenced: dict[int, None] = {}

    def batch_committed(self, scene: Scene, changed: object) -> None:
        self._unfenced.update(
            (broker.id, None) for broker in scene.image.brokers.values() if not broker.is_fenced
        )

    def row_changed(self, scene: Scene, change: RowChange) -> None:
        where, after = change.where, change.after
        if after is not None:
            self._rows[where.topic_id, where.number, after.leader_epoch, after.replicas, after.isr] = None

    def metadata_answered(self, scene: Scene, answer: MetadataResponse) -> None:
        for broker in answer.brokers:
            if broker.node_id in scene.brokers and broker.node_id not in self._unfenced:
                raise self.broken(f"a client was told of {broker!r}, which never was unfenced")
        for topic in answer.topics:
            numbers = [partition.partition_index for partition in topic.partitions]
            if numbers != list(range(len(numbers))):
                raise self.broken(f"the partitions of topic {topic.name!r} were told as {numbers}")
            for told in topic.partitions:
                key = (
                    topic.topic_id,
                    told.partition_index,
                    told.leader_epoch,
                    tuple(told.replica_nodes),
                    tuple(told.isr_nodes),
                )
                if key not in self._rows:
                    raise self.broken(f"of topic {topic.name!r} a client was told {told!r}, never committed")

    def metadata_missing(self, scene: Scene, requests: int) -> None:
        raise self.broken(f"{requests} requests on one connection got no answer")
