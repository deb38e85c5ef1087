"""Invariants of brokers that operators unregister, and of their log directories (KIP-858)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorumd.controller.broker import MIGRATING, UNASSIGNED
from quorumd.controller.partition import Partition, PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.checkers.base import BrokerChecker, SentRequests, named
from quorumd.simulator.brokers.cluster_view import BrokerView, ClusterView

NOT_REPORTED: Final = (MIGRATING, UNASSIGNED)


class OnlyRequestedBrokersAreUnregistered(BrokerChecker):
    """A broker is unregistered only on request. If the response reports success, the incarnation that was registered
    when the request was sent is gone. If it reports an unknown broker, the broker was not registered at some time
    since then."""

    invariant = "brokers are unregistered as requested"

    def __init__(self) -> None:
        self._requested: set[int] = set()
        self._sent = SentRequests[int]()
        """Each request, with the broker epoch that was registered when it was sent, -1 without one."""

    def admin_request_sent(self, view: ClusterView, request: Message) -> None:
        if isinstance(request, UnregisterBrokerRequest):
            self._requested.add(request.broker_id)
            self._sent.add(request, _epoch_of(view, request.broker_id))

    def unregistered(self, view: ClusterView, record: UnregisterBrokerRecord) -> None:
        if record.broker_id not in self._requested:
            raise self.violation(f"broker {record.broker_id} was unregistered without a request")

    def admin_request_completed(self, view: ClusterView, request: Message, response: Message) -> None:
        if not isinstance(request, UnregisterBrokerRequest) or not isinstance(
            response, UnregisterBrokerResponse
        ):
            return
        before = self._sent.take(request)
        assert before is not None
        after = _epoch_of(view, request.broker_id)
        if before == after != -1 and response.error_code in (0, ErrorCode.BROKER_ID_NOT_REGISTERED):
            raise self.violation(f"broker {request.broker_id} is registered with epoch {after}: {response!r}")


def _epoch_of(view: ClusterView, broker_id: int) -> int:
    known = view.image.brokers.get(broker_id)
    return known.epoch if known is not None else -1


class LeadersHaveTheirDirectories(BrokerChecker):
    """No replica leads in a directory that its broker does not have. The batch that records the loss of a directory
    removes its replicas from every ISR. Without ELR the last member stays."""

    invariant = "a replica in a lost directory leads nothing"

    def __init__(self) -> None:
        self._directories: dict[tuple[int, int], tuple[KafkaUuid, ...]] = {}
        """The directories of each broker, by id and epoch."""

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        lost: set[KafkaUuid] = set()
        for broker in view.image.brokers.values():
            before = self._directories.get((broker.id, broker.epoch))
            if before != broker.directories:
                self._directories[broker.id, broker.epoch] = broker.directories
                lost.update(set(before or ()) - set(broker.directories))
        for where in changed:
            row = view.image.partition(where)
            if row is not None and row.directories:
                self._check(view, where, row, lost)

    def _check(self, view: ClusterView, where: PartitionId, row: Partition, lost: set[KafkaUuid]) -> None:
        directories = dict(zip(row.replicas, row.directories, strict=True))
        for member in row.isr:
            if directories[member] in lost and not view.may_remain_last(where, row, member):
                raise self.violation(f"{named(view, where)}: {member} of {row!r} lost {directories[member]}")
        leader = view.image.brokers.get(row.leader)
        if leader is None or not leader.directories:
            return
        if directories[leader.id] not in (*NOT_REPORTED, *leader.directories):
            raise self.violation(f"{named(view, where)} is led by {leader!r}: {row!r}")


class LostDirectoriesAreRecorded(BrokerChecker):
    """The response to a heartbeat that reports lost directories is sent once their loss is committed."""

    invariant = "lost directories are recorded before the response"

    def heartbeat_completed(
        self, view: ClusterView, broker: BrokerView, response: BrokerHeartbeatResponse
    ) -> None:
        known = view.image.brokers.get(broker.id)
        if response.error_code or known is None or known.epoch != broker.epoch:
            return
        lost = set(known.directories) & set(broker.reported_offline)
        if lost and len(known.directories) > len(lost):
            raise self.violation(f"broker {broker.id} reported {sorted(map(str, lost))} as lost: {known!r}")
