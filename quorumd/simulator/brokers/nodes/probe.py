"""Compares the broker of a node with its last state after each event, and reports changes to the observation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from quorumd.broker.broker import Broker
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Transition
from quorumd.controller.partition import PartitionId
from quorumd.simulator.brokers.nodes.logs_on_disk import logs_on_disk
from quorumd.simulator.brokers.nodes.observed import (
    Advance,
    BatchCache,
    NodeBrokerView,
    NodeLog,
    NodeReplica,
)
from quorumd.simulator.brokers.observation import Observation
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Machine


class BrokerProbe:
    """Observes the brokers of all nodes without affecting them."""

    def __init__(self, observation: Observation) -> None:
        self.cache = BatchCache()
        self._observation = observation
        self._running: dict[int, _RunningBroker] = {}

    def look(self, machine: Machine) -> None:
        """Check the broker of a node after one of its events. Raises InvariantViolation."""
        role = machine.node.broker if machine.node is not None else None
        broker = role.broker if role is not None else None
        if broker is None:
            return
        running = self._running.get(machine.node_id)
        if running is None or running.view.broker is not broker:
            running = _RunningBroker(broker, self._observation, self.cache)
            self._running[machine.node_id] = running
            self._observation.begins(running.view, machine.incarnation)
            self._observation.view.brokers[machine.node_id].may_request_fence = True
        running.look()

    def ended(self, machine: Machine, how: str) -> None:
        """Compare the logs on the disk of a node whose process has ended with the logs that the process had."""
        running = self._running.pop(machine.node_id, None)
        seen = self._observation.view.brokers[machine.node_id]
        before = dict(seen.logs)
        if running is not None:
            before |= {where: replica.log for where, replica in running.view.replicas.items()}
        logs = logs_on_disk(machine, self.cache, self._observation.view)
        if running is not None:
            for replica in running.view.replicas.values():
                _check_durable(machine, replica, logs.get(replica.partition))
            self._observation.ends(running.view, logs, how)
        seen.logs = logs
        lost = [where for where, log in before.items() if _lacks(logs.get(where), log)]
        for where in lost:
            self._observation.lost_log(machine.node_id, machine.incarnation, where)
        if lost:
            self._observation.check_lost_records()


def _check_durable(machine: Machine, replica: NodeReplica, found: NodeLog | None) -> None:
    """Check that flushed records are on the disk, however the process ended, even during a move. After a failed sync
    nothing is checked, since the content of the disk is unknown."""
    hosted, end_offset = replica.hosted, found.end_offset if found is not None else 0
    is_empty = hosted.log.start_offset == replica.durable_offset
    if not hosted.is_open or is_empty or machine.disk.syncs_failed:
        return
    if end_offset < replica.durable_offset:
        raise InvariantViolation(
            "a broker keeps flushed records",
            f"broker {machine.node_id} has flushed the records of {hosted.name} below {replica.durable_offset}, its "
            f"disk has those below {end_offset}",
        )


def _lacks(now: NodeLog | None, before: object) -> bool:
    records = getattr(before, "records", [])
    return bool(records) and (now is None or now.records[: len(records)] != records)


class _RunningBroker:
    """One incarnation of a broker. Satisfies `PartitionListener`."""

    def __init__(self, broker: Broker, observation: Observation, cache: BatchCache) -> None:
        self.view = NodeBrokerView(broker)
        self._broker = broker
        self._observation = observation
        self._cache = cache
        self._epoch = -1
        self._was_published = False
        self._pending: list[Callable[[], None]] = []
        """Reports of the current event, in order."""
        broker.partitions.add_listener(self)

    # `PartitionListener`

    def appended(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""
        replica = self._replica(hosted)
        if hosted.replica.leadership is not None:
            self._pending.append(partial(self._advanced, Advance(replica), replica.high_watermark))

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """See `PartitionListener`."""
        if transition is Transition.LEADS:
            self._pending.append(partial(self._observation.leads, self.view, Advance(self._replica(hosted))))

    def _advanced(self, advance: Advance, before: int) -> None:
        self._observation.high_watermark_moved(self.view, advance, before)

    def _replica(self, hosted: HostedPartition) -> NodeReplica:
        replica = self.view.replicas.get(hosted.id)
        if replica is None or replica.hosted is not hosted:
            replica = NodeReplica(hosted, self.view.id, self._cache)
            self.view.replicas[hosted.id] = replica
        return replica

    # After an event

    def look(self) -> None:
        """Report what has changed. Raises InvariantViolation."""
        view, observation = self.view, self._observation
        if view.epoch != self._epoch:
            self._epoch = view.epoch
            observation.registered(view)
        hosted = self._broker.partitions.all()
        if view.is_published != self._was_published:
            self._was_published = view.is_published
            for each in hosted:
                observation.changed(view, each.id)
            self._drop_unused_logs()
        for each in hosted:
            replica = view.replicas.get(each.id)
            if replica is None or replica.hosted is not each or replica.has_changed():
                self._look_at(each, replica is None or replica.hosted is not each)
        if len(hosted) != len(view.replicas):
            self._forget({each.id for each in hosted})
        if self._pending:
            pending, self._pending = self._pending, []
            for report in pending:
                report()

    def _look_at(self, hosted: HostedPartition, is_new: bool) -> None:
        view, observation = self.view, self._observation
        replica = self._replica(hosted)
        seen = observation.view.brokers[view.id]
        history = observation.view.history(hosted.id)
        if hosted.log is not replica.read_from:
            self._check_moved(hosted, replica.moved(self._cache, history.consumed), replica)
            observation.on_move(view.id, hosted.log.recovery_point == hosted.log.end_offset)
        is_new = is_new or (not replica.log.records and hosted.id in seen.logs)
        removed = replica.log.refresh(hosted.log, history.consumed)
        if removed:
            replica.truncated()
        if is_new:
            replica.log.producers.loaded()
        if is_new and hosted.id in seen.logs:
            self._check_recovered(replica, seen.logs[hosted.id])
        self._check_producers(replica)
        replica.high_watermark = hosted.replica.high_watermark
        replica.metadata = hosted.replica.metadata
        replica.leadership = leadership = hosted.replica.leadership
        proposal = leadership.proposal if leadership is not None else None
        if proposal is not replica.proposal:
            replica.proposal = proposal
            if proposal is not None:
                observation.proposed(view, proposal)
        observation.changed(view, hosted.id)
        if removed:
            observation.truncated(view, replica, len(removed))

    def _check_moved(self, hosted: HostedPartition, before: NodeLog, replica: NodeReplica) -> None:
        """Check that a replica keeps its records when it moves to another log directory."""
        moved, expected = replica.log.records[: before.end_offset], before.records
        if moved != expected:
            pairs = enumerate(zip(expected, moved, strict=False))
            offset = next((at for at, (old, new) in pairs if old != new), len(moved))
            raise InvariantViolation(
                "a moved replica keeps its records",
                f"broker {self.view.id} has moved {hosted.name} to {hosted.directory.path}, where it has "
                f"{len(moved)} of {len(expected)} records, different from offset {offset} on",
            )

    def _check_recovered(self, replica: NodeReplica, on_disk: object) -> None:
        """Check that a start recovers the records that the last process left on the disk."""
        seen = self._observation.view.brokers[self.view.id]
        logs = dict(seen.logs)
        expected = logs.pop(replica.partition)
        seen.logs = logs
        if replica.log.records[: len(expected.records)] != expected.records:
            raise InvariantViolation(
                "a broker recovers the logs on its disk",
                f"broker {self.view.id} has {replica.log.end_offset} records of {replica.hosted.name}, "
                f"{expected.end_offset} were on its disk",
            )

    def _check_producers(self, replica: NodeReplica) -> None:
        """Check that the broker's producer state and last stable offset match its log."""
        log, model = replica.hosted.log, replica.log.producers
        for producer_id, expected in model.newest.items():
            if expected.offset < log.start_offset:
                continue
            found = log.producers.entries.get(producer_id)
            known = (found.epoch, found.last_sequence, found.transaction_start) if found is not None else None
            if known != expected[:3]:
                raise InvariantViolation(
                    "a broker knows the producers of its log",
                    f"broker {self.view.id} has {found} of producer {producer_id} in {replica.hosted.name}, the log "
                    f"has {expected}",
                )
        high_watermark = replica.hosted.replica.high_watermark
        stable = max(log.start_offset, model.last_stable_offset(high_watermark))
        if replica.hosted.replica.leadership is not None and log.last_stable_offset(high_watermark) > stable:
            raise InvariantViolation(
                "the last stable offset is below every transaction without a committed marker",
                f"broker {self.view.id} has {log.last_stable_offset(high_watermark)} of {replica.hosted.name}, high "
                f"watermark {high_watermark}; by its log it is {stable}",
            )

    def _drop_unused_logs(self) -> None:
        """Drop the logs of the previous process that this one has not opened: they were deleted, or are in a failed
        directory and count as lost."""
        seen = self._observation.view.brokers[self.view.id]
        unused, seen.logs = seen.logs, {}
        for where in unused:
            if self._broker.partitions.is_offline(where):
                self._observation.lost_log(self.view.id, seen.incarnation, where)

    def _forget(self, hosted: set[PartitionId]) -> None:
        """Drop replicas that were removed, or that are in a failed directory and count as lost."""
        seen = self._observation.view.brokers[self.view.id]
        for where in [where for where in self.view.replicas if where not in hosted]:
            replica = self.view.replicas.pop(where)
            if not self.view.is_published:
                # The broker has closed its logs, and is about to end.
                seen.logs = {**seen.logs, where: replica.log}
            elif self._broker.partitions.is_offline(where):
                self._observation.lost_log(self.view.id, seen.incarnation, where)
            self._observation.changed(self.view, where)
