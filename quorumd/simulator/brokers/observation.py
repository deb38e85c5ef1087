"""Updates the cluster view from the committed log and the brokers, and calls the checkers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quorumd.broker.replication.isr_proposal import CommittedIsr, IsrProposal
from quorumd.controller.cluster_image import MIN_INSYNC_REPLICAS
from quorumd.controller.partition import RECOVERING, Partition, PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import broker_heartbeat_request, broker_heartbeat_response
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.broker import Broker
from quorumd.simulator.brokers.checkers import all_checkers
from quorumd.simulator.brokers.checkers.base import BrokerChecker
from quorumd.simulator.brokers.cluster_view import (
    ClusterView,
    ObservedBroker,
    ObservedLog,
    ObservedReplica,
    OwnerCommit,
    PartitionChange,
    Registration,
)
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.metadata import MetadataBatch
from quorumd.simulator.brokers.partition_history import UNBOUNDED, Outcome, PartitionHistory
from quorumd.simulator.checkers.administration import AdministratorsAreObeyed, Requested
from quorumd.simulator.inspection.log_mirror import Batch

UNCLEAN = 1
"""The type of an unclean election."""

RecordEntry = Callable[[int, str, str], None]
"""Adds an entry to a timeline, with broker id, kind of entry and text."""


class Observation:
    """Receives the events of all brokers as their `broker.Watcher`, and reads the committed log."""

    def __init__(
        self,
        committed: Sequence[Batch],
        now_ms: Callable[[], float],
        shortest_session_ms: float,
        longest_session_ms: float,
    ) -> None:
        self.view = ClusterView(
            shortest_session_ms=shortest_session_ms, longest_session_ms=longest_session_ms
        )
        self.checkers: list[BrokerChecker] = all_checkers()
        self.administration = AdministratorsAreObeyed()
        self._administered: list[Requested] = []
        """Requests without a response."""
        self.record_entry: RecordEntry | None = None
        self.on_shutdown_granted: Callable[[Broker], None] = lambda broker: None
        self.on_stale: Callable[[Broker], None] = lambda broker: None
        self.on_proposal: Callable[[ObservedBroker, IsrProposal], None] = lambda broker, proposal: None
        self.on_move: Callable[[int, bool], None] = lambda broker_id, is_flushed: None
        self.counters = dict.fromkeys(Outcome, 0)
        self.elections = 0
        self.joins = 0
        self._committed = committed
        self._now_ms = now_ms
        self._seen_batches = 0
        self._offsets: dict[int, bytes] = {}
        self._changed: dict[PartitionId, None] = {}
        self._leader_ran_ms: dict[int, float] = {}
        """When the leader of each epoch of the quorum last processed an event."""
        self._incarnations: dict[KafkaUuid, int] = {}
        """The previous epoch that each broker incarnation reported."""
        self._looks = {
            name: [getattr(checker, name) for checker in self.checkers if _overrides(checker, name)]
            for name in _METHODS
        }

    # The simulation

    def quorum_leader_ran(self, epoch: int) -> None:
        """Record that the leader of this epoch of the quorum has processed an event."""
        view, now_ms = self.view, self._now_ms()
        since_ms = view.leads_since.setdefault(epoch, now_ms)
        # An idle leader wakes up eight times per session timeout to check sessions; the rest of a longer gap is a
        # pause.
        gap_ms, check_ms = now_ms - self._leader_ran_ms.get(epoch, since_ms), view.longest_session_ms / 8
        if gap_ms > 2 * check_ms:
            view.leader_paused_ms[epoch] = view.leader_paused_ms.get(epoch, 0.0) + gap_ms - check_ms
        self._leader_ran_ms[epoch] = now_ms

    def look(self) -> None:
        """Check the brokers after an event. Raises InvariantViolation."""
        if len(self._committed) > self._seen_batches:
            self._follow()
        if self._changed:
            changed, self._changed = self._changed, {}
            for where in changed:
                self._check("partition_observed", where)

    def _follow(self) -> None:
        self.view.now_ms = self._now_ms()
        for batch in self._committed[self._seen_batches :]:
            self._offsets[batch.base_offset] = batch.data
            if not batch.is_control:
                self._apply(batch)
        self._seen_batches = len(self._committed)

    def _apply(self, batch: Batch) -> None:
        view = self.view
        partitions: dict[PartitionId, None] = {}
        records = [decode_record(v) for header in headers(batch.data) for v in values(batch.data, header)]
        least = _least_min_isr(records)
        for offset, record in enumerate(records, batch.base_offset):
            changes = self._apply_record(record, offset, batch.epoch)
            for change in changes:
                partitions[change.where] = None
                topic = view.image.topics.get(change.where.topic_id)
                lowest = least.get(topic.name, UNBOUNDED) if topic is not None else UNBOUNDED
                self._note(change)
                self._check(
                    "partition_changed", change._replace(min_isr=min(lowest, view.min_isr(change.where)))
                )
        if any(not isinstance(record, PartitionChangeRecord) for record in records):
            partitions = dict.fromkeys(self._partitions())
        self._check("batch_committed", list(partitions))
        self._changed.update(partitions)
        self._check_guarantees(partitions)

    def _apply_record(self, record: Message, offset: int, leader_epoch: int) -> list[PartitionChange]:
        image = self.view.image
        if isinstance(record, PartitionRecord | PartitionChangeRecord):
            where = PartitionId(record.topic_id, record.partition_id)
            before = image.partition(where)
            image.apply(record, [])
            names_leader = isinstance(record, PartitionRecord) or record.leader != -2
            return [PartitionChange(where, before, image.partition(where), names_leader, 1)]
        if isinstance(record, RemoveTopicRecord):
            gone = image.topics[record.topic_id].partitions.items()
            removed = [
                PartitionChange(PartitionId(record.topic_id, n), row, None, False, 1) for n, row in gone
            ]
            image.apply(record, [])
            return removed
        if isinstance(record, ClearElrRecord):
            rows = [(where, image.partition(where)) for where in self._partitions()]
            image.apply(record, [])
            cleared = ((where, row, image.partition(where)) for where, row in rows)
            return [PartitionChange(*change, False, 1) for change in cleared if change[1] != change[2]]
        if isinstance(record, RegisterBrokerRecord):
            before_broker = image.brokers.get(record.broker_id)
            image.apply(record, [])
            after = image.brokers[record.broker_id]
            previous = self._incarnations.get(after.incarnation_id, -1)
            is_retry = before_broker is not None and before_broker.incarnation_id == after.incarnation_id
            if not is_retry and (before_broker is None or previous != before_broker.epoch):
                self.view.unclean[after.epoch] = None
            self._check("registered", Registration(before_broker, after, offset))
            return []
        had_elr = image.elr_enabled
        image.apply(record, [])
        if image.elr_enabled and not had_elr:
            self.view.elr_enabled()
        if isinstance(record, ConfigRecord):
            self._check("config_changed", record)
        if isinstance(record, UnregisterBrokerRecord):
            self.view.unregistered[record.broker_id, record.broker_epoch] = None
            self._check("unregistered", record)
        if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced > 0:
            self._check("fenced", self.view.brokers[record.broker_id], leader_epoch)
        return []

    def _partitions(self) -> list[PartitionId]:
        topics = self.view.image.topics.values()
        return [PartitionId(topic.id, number) for topic in topics for number in topic.partitions]

    def _note(self, change: PartitionChange) -> None:
        before, after = change.before, change.after
        self.view.changed(change.where, after)
        if after is None:
            self.view.history(change.where).break_guarantee("its topic is deleted")
        elif before is not None:
            self.elections += after.leader != before.leader
            self.joins += len(set(after.isr) - set(before.isr))
        if after is not None and after.recovery == RECOVERING:
            self.view.history(change.where).break_guarantee(f"an unclean election made {after!r}")

    def _check_guarantees(self, partitions: dict[PartitionId, None]) -> None:
        view = self.view
        for where in partitions:
            row = view.row(where)
            if row is None:
                continue
            history = view.history(where)
            history.least_min_isr = min(history.least_min_isr, view.min_isr(where), len(row.target))
            history.count_lossy()
            self._check_last_members(history, row)
            self._clear_lossy(history, row)

    def _check_last_members(self, history: PartitionHistory, row: Partition) -> None:
        """Without ELR, the last ISR member stays eligible even if it lost records."""
        if not self.view.image.elr_enabled and row.isr and history.lossy.keys() >= set(row.isr):
            history.break_guarantee(f"without ELR, the last ISR members {row.isr} lost records")

    def _clear_lossy(self, history: PartitionHistory, row: Partition) -> None:
        """Clear brokers that lost records once they are in the ISR again, or enough other replicas are."""
        for broker_id, incarnation in list(history.lossy.items()):
            known = self.view.image.brokers.get(broker_id)
            is_new = known is not None and self.view.incarnations.get(known.incarnation_id, 0) > incarnation
            others = [member for member in row.isr if member not in history.lossy]
            is_out = broker_id not in row.isr and broker_id not in row.elr
            if is_new and (broker_id in row.isr or (is_out and len(others) >= history.least_min_isr)):
                del history.lossy[broker_id]

    def lost_log(self, broker_id: int, incarnation: int, where: PartitionId) -> None:
        """Record that a broker's disk lost records of this incarnation."""
        row = self.view.row(where)
        if row is not None and broker_id in row.replicas:
            history = self.view.history(where)
            history.lossy[broker_id] = incarnation
            history.count_lossy()
            self._check_last_members(history, row)
        self._changed[where] = None

    def check_lost_records(self) -> None:
        """Check partitions whose logs were truncated or lost."""
        for where in list(self.view.histories):
            self._check("lost", where)

    def begins(self, broker: ObservedBroker, incarnation: int) -> None:
        """Record that a broker's process has started."""
        self.view.incarnations[broker.incarnation_id] = incarnation
        seen = self.view.brokers[broker.id]
        seen.runs, seen.is_published, seen.epoch, seen.incarnation = True, False, -1, incarnation
        seen.may_request_fence, seen.heartbeat_ms, seen.heartbeat_leader_epoch = False, -1.0, -1
        seen.awaits_heartbeat_response = False
        seen.replicas, seen.fetchers = broker.replicas, broker.fetchers
        self._incarnations[broker.incarnation_id] = broker.previous_epoch
        self._add_entry(broker.id, "process", f"starts, cleanly ended epoch {broker.previous_epoch}")

    def ends(self, broker: ObservedBroker, logs: Mapping[PartitionId, ObservedLog], how: str) -> None:
        """Record that a broker's process has ended; `logs` are the logs on its disk."""
        seen = self.view.brokers[broker.id]
        seen.runs, seen.is_published, seen.replicas, seen.logs = False, False, {}, logs
        seen.ended_ms = self._now_ms()
        seen.awaits_heartbeat_response |= broker.awaits_heartbeat
        self._changed.update(dict.fromkeys(logs))
        self._add_entry(broker.id, "process", how)

    def _check(self, method: str, *arguments: Any) -> None:
        for look in self._looks[method]:
            look(self.view, *arguments)

    def _add_entry(self, broker_id: int, kind: str, text: str) -> None:
        if self.record_entry is not None:
            self.record_entry(broker_id, kind, text)

    # Clients

    def wrote(self, where: PartitionId, value: int) -> None:
        self.view.history(where).waiting[value] = None

    def read(self, where: PartitionId, offset: int, records: Sequence[Record]) -> None:
        self._check("consumed", where, offset, records)

    def read_committed(self, where: PartitionId, values: Sequence[int]) -> None:
        """Record what a consumer with isolation level read_committed saw."""
        self._check("read_committed", where, values)

    def producer_id_allocated(self, producer_id: int, epoch: int) -> None:
        """Record the producer id of a producer without transactions."""
        self._check("producer_id_allocated", producer_id, epoch)

    def offset_reported(self, group: str, where: PartitionId, offset: int, committed: int) -> None:
        """Record an offset of a group in a response, and the newest offset committed before the request."""
        self._check("offset_reported", group, where, offset, committed)

    def offset_committed(self, commit: OwnerCommit) -> None:
        """Record a successful commit of an offset."""
        self._check("offset_committed", commit)

    def late_commit(self, group: str, topic: str, number: int, error: ErrorCode) -> None:
        """Record the response to a commit with an epoch of the member that is no longer current."""
        self._check("late_commit", group, topic, number, error)

    def assigned(self, group: str, subscribed: Sequence[str], assigned: Sequence[PartitionId]) -> None:
        """Record the partitions assigned to a member, and the topics to which it subscribes."""
        self._check("assigned", group, subscribed, assigned)

    def target_requested(self, where: PartitionId, target: tuple[int, ...]) -> None:
        """Record that an administrator requested these replicas."""
        self.view.requested_targets.setdefault(where, {})[target] = None

    def admin_request_sent(self, request: Message) -> None:
        """Record that an administrator or operator sends a request."""
        if isinstance(request, ElectLeadersRequest) and request.election_type == UNCLEAN:
            self.view.unclean_requests.append(request)
        self._administered.append(self.administration.requested(request, self._now_ms()))
        self._check("admin_request_sent", request)

    def admin_request_completed(self, request: Message, response: Message | None) -> None:
        """Check the response to an administrator, operator or broker. Without a response, `response` is None, and the
        request may still take effect."""
        if response is None:
            return
        self.view.unclean_requests = [other for other in self.view.unclean_requests if other is not request]
        self._check("admin_request_completed", request, response)
        for requested in [each for each in self._administered if each.request is request]:
            self._administered.remove(requested)
            self.administration.responded(requested, response, self._now_ms())

    def metadata_received(self, response: MetadataResponse) -> None:
        if len(self._committed) > self._seen_batches:
            self._follow()
        self._check("metadata_received", response)
        self.administration.seen(response)

    def metadata_lost(self, requests: int) -> None:
        self._check("metadata_lost", requests)

    # Brokers: `broker.Watcher`

    def changed(self, broker: ObservedBroker, where: PartitionId) -> None:
        self.view.brokers[broker.id].is_published = broker.is_published
        self._changed[where] = None

    def metadata_applied(self, broker: Broker, batch: MetadataBatch) -> None:
        if len(self._committed) > self._seen_batches:
            self._follow()
        committed = self._offsets.get(batch.base_offset)
        self._check("metadata_applied", self.view.brokers[broker.id], committed, batch.data)

    def high_watermark_moved(self, broker: ObservedBroker, replica: ObservedReplica, before: int) -> None:
        history = self.view.history(replica.partition)
        if replica.high_watermark > history.high_watermark:
            history.consumed += replica.log.records[history.high_watermark : replica.high_watermark]
        self._changed[replica.partition] = None
        self._check("high_watermark_moved", self.view.brokers[broker.id], replica, before)
        if self.record_entry is not None:
            self._add_entry(
                broker.id, "disk", f"high watermark of {self._name(replica)}: {replica.high_watermark}"
            )

    def truncated(self, broker: ObservedBroker, replica: ObservedReplica, removed: int) -> None:
        self._check("lost", replica.partition)
        if self.record_entry is not None:
            text = f"truncates {self._name(replica)} to {replica.log.end_offset}, removing {removed} records"
            self._add_entry(broker.id, "disk", text)

    def leads(self, broker: ObservedBroker, replica: ObservedReplica) -> None:
        self._check("leads", self.view.brokers[broker.id], replica)
        if self.record_entry is not None:
            text = f"leads {self._name(replica)} in epoch {replica.leader_epoch}"
            self._add_entry(broker.id, "role", text)

    def settled(self, where: PartitionId, value: int, outcome: Outcome) -> None:
        """Record the outcome of a write for its producer."""
        history = self.view.history(where)
        history.waiting.pop(value, None)
        self.counters[outcome] += 1
        if outcome is Outcome.ACKNOWLEDGED:
            history.acknowledged[value] = None
        elif outcome is Outcome.REFUSED:
            history.refused[value] = None
        self._check("settled", where, value, outcome)

    def proposed(self, broker: ObservedBroker, proposal: IsrProposal) -> None:
        self._check("proposed", self.view.brokers[broker.id], proposal)
        self.on_proposal(broker, proposal)

    def proposal_completed(
        self, broker: Broker, proposal: IsrProposal, error: ErrorCode, committed: CommittedIsr | None
    ) -> None:
        where = proposal.partition
        is_known = committed is not None and where in self.view.histories
        if is_known and self.view.min_isr(where) > broker.min_isr(where):
            # Until the metadata follows the response, the leader considers an ISR large enough that is not.
            self.view.history(where).break_guarantee("a response overtook a change of min.insync.replicas")
        seen = self.view.brokers[broker.id]
        seen.alter_partition_version = broker.alter_partition_version
        self._check("proposal_completed", seen, proposal, error, committed)

    def registered(self, broker: ObservedBroker) -> None:
        seen = self.view.brokers[broker.id]
        seen.epoch = broker.epoch
        self._changed.update(dict.fromkeys(broker.replicas))
        self._check("registration_completed", seen)
        self._add_entry(broker.id, "role", f"is registered with epoch {broker.epoch}")

    def heartbeat_completed(
        self, broker: Broker, request: broker_heartbeat_request.BrokerHeartbeatRequest,
        response: broker_heartbeat_response.BrokerHeartbeatResponse,
    ) -> None:  # fmt: skip
        seen, lifecycle = self.view.brokers[broker.id], broker.lifecycle
        if not response.error_code and lifecycle.heartbeat_leader is not None:
            seen.heartbeat_ms = lifecycle.heartbeat_sent_ms
            seen.heartbeat_leader_epoch = lifecycle.heartbeat_leader.epoch
            seen.leader_paused_ms = self.view.leader_paused_ms.get(seen.heartbeat_leader_epoch, 0.0)
        seen.reported_offline = request.offline_log_dirs
        self.view.now_ms = self._now_ms()
        self._check("heartbeat_completed", seen, response)
        if response.error_code == ErrorCode.STALE_BROKER_EPOCH:
            self.on_stale(broker)

    def heartbeat_failed(
        self, broker: Broker, request: broker_heartbeat_request.BrokerHeartbeatRequest
    ) -> None:
        self.view.brokers[broker.id].awaits_heartbeat_response = True
        if request.want_fence:
            self.view.brokers[broker.id].may_request_fence = True

    def shutdown_granted(self, broker: Broker) -> None:
        self.on_shutdown_granted(broker)

    def _name(self, replica: ObservedReplica) -> str:
        topic = self.view.image.topics.get(replica.partition.topic_id)
        return f"{topic.name if topic is not None else replica.partition.topic_id}-{replica.partition.number}"


_METHODS = [
    name
    for name in vars(BrokerChecker)
    if not name.startswith("_") and name not in ("invariant", "violation")
]


def _overrides(checker: BrokerChecker, method: str) -> bool:
    return getattr(type(checker), method) is not getattr(BrokerChecker, method)


def _least_min_isr(records: Sequence[Message]) -> dict[str, int]:
    """Return min.insync.replicas by topic as set by these records, 1 if they delete it."""
    return {
        record.resource_name: int(record.value or "1")
        for record in records
        if isinstance(record, ConfigRecord)
        and record.resource_type == ConfigResourceType.TOPIC
        and record.name == MIN_INSYNC_REPLICAS
    }
