"""Invariants of the controller's responses, which report committed state only."""

from __future__ import annotations

from quorumd.broker.replication.isr_proposal import CommittedIsr, IsrProposal
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
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
from quorumd.simulator.brokers.checkers.base import BrokerChecker, named
from quorumd.simulator.brokers.cluster_view import BrokerView, ClusterView, PartitionChange


class ResponsesAreCommitted(BrokerChecker):
    """The state in a response is committed before the response is sent."""

    invariant = "the controller's responses are committed"

    def __init__(self) -> None:
        self._topics: dict[object, None] = {}
        self._deleted: dict[object, None] = {}
        self._reassigned: dict[tuple[str, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]], None] = {}
        self._unfenced: dict[tuple[int, int], None] = {}

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        where, after = change.where, change.after
        if after is None:
            self._deleted[where.topic_id] = None
            return
        self._topics[where.topic_id] = None
        if after.is_reassigning:
            name = view.image.topics[where.topic_id].name
            self._reassigned[name, where.number, after.replicas, after.adding, after.removing] = None

    def batch_committed(self, view: ClusterView, changed: object) -> None:
        for broker in view.image.brokers.values():
            if not broker.is_fenced:
                self._unfenced[broker.id, broker.epoch] = None

    def proposal_completed(
        self,
        view: ClusterView,
        broker: BrokerView,
        proposal: IsrProposal,
        error: ErrorCode,
        committed: CommittedIsr | None,
    ) -> None:
        row = view.row(proposal.partition)
        if committed is None or row is None:
            return
        if committed.partition_epoch > row.partition_epoch:
            raise self.violation(f"broker {broker.id} received {committed!r}, committed is {row!r}")
        if committed.partition_epoch == row.partition_epoch and set(committed.isr) != set(row.isr):
            raise self.violation(f"broker {broker.id} received {committed!r}, committed is {row!r}")

    def registration_completed(self, view: ClusterView, broker: BrokerView) -> None:
        known = view.image.brokers.get(broker.id)
        is_unregistered = (broker.id, broker.epoch) in view.unregistered
        if not is_unregistered and (known is None or known.epoch < broker.epoch):
            raise self.violation(
                f"broker {broker.id} received the epoch {broker.epoch}, committed is {known!r}"
            )

    def heartbeat_completed(
        self, view: ClusterView, broker: BrokerView, response: BrokerHeartbeatResponse
    ) -> None:
        if (
            not response.error_code
            and not response.is_fenced
            and (broker.id, broker.epoch) not in self._unfenced
            # It may have been unfenced and unregistered in one batch; the image is checked after whole batches.
            and (broker.id, broker.epoch) not in view.unregistered
        ):
            raise self.violation(f"the response to broker {broker.id} has it as unfenced")

    def admin_request_completed(self, view: ClusterView, request: Message, response: Message) -> None:
        if isinstance(response, CreateTopicsResponse):
            for created in response.topics:
                # Validated topics, and responses of older versions, have no id.
                known = created.topic_id == ZERO_UUID or created.topic_id in self._topics
                if not created.error_code and not known:
                    raise self.violation(f"topic {created.name} ({created.topic_id}) does not exist")
        elif isinstance(response, DeleteTopicsResponse):
            for deleted in response.responses:
                if not deleted.error_code and deleted.topic_id in view.image.topics:
                    raise self.violation(f"topic {deleted.name} ({deleted.topic_id}) still exists")
        elif isinstance(response, ListPartitionReassignmentsResponse):
            for topic in response.topics:
                for part in topic.partitions:
                    reported = (topic.name, part.partition_index, tuple(part.replicas), tuple(part.adding_replicas),
                            tuple(part.removing_replicas))  # fmt: skip
                    if reported not in self._reassigned:
                        raise self.violation(f"the reassignment {reported} was never committed")


class RunningBrokersKeepTheirEpoch(BrokerChecker):
    """No other incarnation registers with the id of a running broker, except after an unregistration or
    by a late request of an earlier incarnation: the controller cannot know which one is newer (S14, race R22)."""

    invariant = "a running broker keeps its broker epoch"

    def heartbeat_completed(
        self, view: ClusterView, broker: BrokerView, response: BrokerHeartbeatResponse
    ) -> None:
        known = view.image.brokers.get(broker.id)
        is_late = known is not None and view.incarnations.get(known.incarnation_id, 0) < broker.incarnation
        is_late |= (broker.id, broker.epoch) in view.unregistered
        if response.error_code == ErrorCode.STALE_BROKER_EPOCH and broker.runs and not is_late:
            raise self.violation(f"broker {broker.id} runs with epoch {broker.epoch}: {view.image.brokers}")


class ShutdownBrokersLeadNothing(BrokerChecker):
    """The controller completes a controlled shutdown once the broker leads nothing (KIP-631)."""

    invariant = "a broker that may shut down leads nothing"

    def heartbeat_completed(
        self, view: ClusterView, broker: BrokerView, response: BrokerHeartbeatResponse
    ) -> None:
        if not response.should_shut_down or not view.is_up(broker.id):
            return
        for topic in view.image.topics.values():
            for number, row in topic.partitions.items():
                if row.leader == broker.id:
                    raise self.violation(f"broker {broker.id} leads {topic.name}-{number}: {row!r}")


class ShutdownsAreKnownToFollowers(BrokerChecker):
    """A drained broker may stop only once every other active broker has the metadata that names the new leaders, so
    that no follower still fetches from it (KIP-631). Brokers that are unfenced later follow no leader yet."""

    invariant = "a drained broker stops after its followers know their new leaders"

    def __init__(self) -> None:
        self._active: dict[int, frozenset[int]] = {}
        """The brokers that were active when a broker was fenced, by its id."""

    def fenced(self, view: ClusterView, broker: BrokerView, leader_epoch: int) -> None:
        self._active[broker.id] = frozenset(id for id, each in view.image.brokers.items() if each.is_active)

    def heartbeat_completed(
        self, view: ClusterView, broker: BrokerView, response: BrokerHeartbeatResponse
    ) -> None:
        known = view.image.brokers.get(broker.id)
        if not response.should_shut_down or known is None or not known.in_controlled_shutdown:
            return
        were_active = self._active.get(broker.id, view.brokers)
        for other in view.brokers.values():
            registered = view.image.brokers.get(other.id)
            if other.id == broker.id or not view.is_up(other.id) or registered is None:
                continue
            if not registered.is_active or (known.is_fenced and other.id not in were_active):
                continue
            for where, replica in other.replicas.items():
                row = view.row(where)
                if row is not None and replica.metadata is not None and replica.metadata.leader == broker.id:
                    raise self.violation(
                        f"broker {broker.id} may stop, but broker {other.id} considers it the leader of "
                        f"{named(view, where)}: committed is {row!r}"
                    )


class SilentBrokersAreFenced(BrokerChecker):
    """A controller that responds to other brokers' heartbeats without a gap fences a broker within two session
    timeouts after the end of its process, unless one of its heartbeats may still arrive (KIP-631)."""

    invariant = "a silent broker is fenced within two sessions"

    def __init__(self) -> None:
        self._epoch = -1
        self._since_ms = self._last_ms = 0.0
        """Times of the first and the last of the current leader's responses to heartbeats without a gap."""

    def heartbeat_completed(
        self, view: ClusterView, broker: BrokerView, response: BrokerHeartbeatResponse
    ) -> None:
        now_ms, session_ms = view.now_ms, view.longest_session_ms
        if response.error_code:
            return
        if broker.heartbeat_leader_epoch != self._epoch or now_ms - self._last_ms > session_ms / 2:
            self._epoch, self._since_ms = broker.heartbeat_leader_epoch, now_ms
        self._last_ms = now_ms
        for silent in view.brokers.values():
            known = view.image.brokers.get(silent.id)
            if silent.runs or silent.awaits_heartbeat_response or known is None or known.is_fenced:
                continue
            silent_ms = now_ms - max(silent.ended_ms, self._since_ms)
            if silent_ms > 2 * session_ms:
                raise self.violation(
                    f"broker {silent.id} ended {silent_ms:.0f} ms ago and is not fenced: {known!r}; sessions are "
                    f"{session_ms:.0f} ms at most"
                )


class ControlledShutdownProgresses(BrokerChecker):
    """Every heartbeat of a broker in controlled shutdown moves leaderships or ISR memberships away while it leads
    partitions, even if a previous leader started the shutdown: otherwise it would wait until its timeout
    (KIP-631)."""

    invariant = "a controlled shutdown progresses with every heartbeat"

    def __init__(self) -> None:
        self._left: dict[int, tuple[int, int, int]] = {}
        """The epoch of each broker, the number of partitions that it leads, and the number of ISRs with it."""

    def heartbeat_completed(
        self, view: ClusterView, broker: BrokerView, response: BrokerHeartbeatResponse
    ) -> None:
        known = view.image.brokers.get(broker.id)
        if response.error_code or known is None or not known.in_controlled_shutdown or known.is_fenced:
            return
        rows = [row for topic in view.image.topics.values() for row in topic.partitions.values()]
        led = sum(row.leader == broker.id for row in rows)
        in_sync = sum(broker.id in row.isr for row in rows)
        epoch, led_before, in_sync_before = self._left.get(broker.id, (-1, 0, 0))
        self._left[broker.id] = (known.epoch, led, in_sync)
        if epoch == known.epoch and led_before and led + in_sync >= led_before + in_sync_before:
            raise self.violation(f"broker {broker.id} leads {led} partitions, as many as before: {known!r}")


class ProducerIdsAreUnique(BrokerChecker):
    """Blocks do not overlap, and each is committed before it is sent (KIP-730)."""

    invariant = "a producer id is allocated once"

    def __init__(self) -> None:
        self._given: list[tuple[int, int]] = []

    def admin_request_completed(self, view: ClusterView, request: Message, response: Message) -> None:
        if not isinstance(response, AllocateProducerIdsResponse) or response.error_code:
            return
        start, end = response.producer_id_start, response.producer_id_start + response.producer_id_len
        for first, last in self._given:
            if start < last and first < end:
                raise self.violation(f"{start} to {end - 1} were allocated after {first} to {last - 1}")
        if end > view.image.next_producer_id:
            raise self.violation(
                f"{start} to {end - 1} were allocated, committed is {view.image.next_producer_id}"
            )
        self._given.append((start, end))


class LiveBrokersAreNotFenced(BrokerChecker):
    """A leader fences a broker no earlier than a session timeout after the last heartbeat to which it responded, and
    after its own election, since it received no heartbeats before. Its own pauses do not count (KIP-631)."""

    invariant = "a broker that sends heartbeats is not fenced"

    def fenced(self, view: ClusterView, broker: BrokerView, leader_epoch: int) -> None:
        if broker.may_request_fence:
            return
        since_ms = view.leads_since.get(leader_epoch, 0.0)
        paused_ms = view.leader_paused_ms.get(leader_epoch, 0.0)
        if broker.runs and broker.heartbeat_leader_epoch == leader_epoch:
            since_ms = max(since_ms, broker.heartbeat_ms)
            paused_ms -= broker.leader_paused_ms
        silent_ms = view.now_ms - since_ms - paused_ms
        if silent_ms < view.shortest_session_ms:
            raise self.violation(
                f"broker {broker.id} was fenced {silent_ms:.0f} ms after its last heartbeat with a response, or the "
                f"election of the leader, not counting {paused_ms:.0f} ms in which the leader was paused; sessions "
                f"are {view.shortest_session_ms:.0f} ms or longer"
            )


class ReassignmentsCanBeReverted(BrokerChecker):
    """A cancellation is refused if it would drop replicas with records that others lack. Then a reassignment to the
    original replicas is accepted."""

    invariant = "a reassignment can always be reverted"

    def admin_request_completed(self, view: ClusterView, request: Message, response: Message) -> None:
        if not isinstance(request, AlterPartitionReassignmentsRequest) or not isinstance(
            response, AlterPartitionReassignmentsResponse
        ):
            return
        unregistered = {broker_id for broker_id, _ in view.unregistered}
        cordoned = {broker.id for broker in view.image.brokers.values() if broker.is_cordoned}
        refused = {
            (topic.name, reported.partition_index): reported
            for topic in response.responses
            for reported in topic.partitions
            if reported.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        }
        for requested in request.topics:
            topic = view.image.topic_by_name(requested.name)
            for wanted in requested.partitions:
                row = topic.partitions.get(wanted.partition_index) if topic is not None else None
                reported = refused.get((requested.name, wanted.partition_index))
                if row is None or reported is None or wanted.replicas is None or not row.is_reassigning:
                    continue
                # As in Kafka, a broker is refused as a replica while it is unregistered or cordoned.
                refusable = unregistered | cordoned
                if tuple(wanted.replicas) == row.original and refusable.isdisjoint(row.original):
                    raise self.violation(f"{requested.name}-{wanted.partition_index}, {row!r}: {reported!r}")


class MetadataResponsesAreCommitted(BrokerChecker):
    """Metadata responses, however large, were correct at some time: each partition appears once, in a committed
    state, with existing brokers. Without faults, every request on a connection gets its response."""

    invariant = "metadata responses have whole, committed topics"

    def __init__(self) -> None:
        self._rows: dict[tuple[object, int, int, tuple[int, ...], tuple[int, ...]], None] = {}
        self._unfenced: dict[int, None] = {}

    def batch_committed(self, view: ClusterView, changed: object) -> None:
        self._unfenced.update(
            (broker.id, None) for broker in view.image.brokers.values() if not broker.is_fenced
        )

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        where, after = change.where, change.after
        if after is not None:
            self._rows[where.topic_id, where.number, after.leader_epoch, after.replicas, after.isr] = None

    def metadata_received(self, view: ClusterView, response: MetadataResponse) -> None:
        for broker in response.brokers:
            is_model = broker.node_id in view.brokers and not view.brokers_are_nodes
            if is_model and broker.node_id not in self._unfenced:
                raise self.violation(f"a client received {broker!r}, which was never unfenced")
        for topic in response.topics:
            numbers = [partition.partition_index for partition in topic.partitions]
            if numbers != list(range(len(numbers))):
                raise self.violation(f"a client received the partitions {numbers} of topic {topic.name!r}")
            for reported in topic.partitions:
                key = (
                    topic.topic_id,
                    reported.partition_index,
                    reported.leader_epoch,
                    tuple(reported.replica_nodes),
                    tuple(reported.isr_nodes),
                )
                if key not in self._rows:
                    raise self.violation(
                        f"a client received {reported!r} of topic {topic.name!r}, which was never committed"
                    )

    def metadata_lost(self, view: ClusterView, requests: int) -> None:
        raise self.violation(f"{requests} requests on one connection got no response")
