"""AlterPartition requests of a broker: one at a time, retried until there is a response."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from quorumd.broker.replication.isr_proposal import FINAL
from quorumd.controller.partition import Partition, PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages import alter_partition_request, alter_partition_response
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.replica import Proposal
from quorumd.simulator.brokers.request_channel import Address, Channel
from quorumd.simulator.environment.event_heap import EventHeap, Process

EPOCHS_SINCE: Final = 3
"""The first version of AlterPartition with the broker epoch of each ISR member (KIP-903)."""
TOPIC_IDS_SINCE: Final = 2
"""The first version of AlterPartition with topic ids; earlier versions name topics."""
RETRY_MS: Final = 50.0
Settled = Callable[[Proposal, ErrorCode, Partition | None], None]


class IsrChanges:
    """Sends the proposals of all partitions that a broker leads, with requests of one version.

    `controller()` returns the address of the quorum's leader, None if it is unknown, and `name_of(topic_id)` the name
    of a topic, "" if it is unknown. `settled(proposal, error, partition)` receives the result of a proposal.
    """

    def __init__(
        self,
        broker_id: int,
        heap: EventHeap,
        process: Process,
        channel: Channel,
        controller: Callable[[], Address | None],
        settled: Settled,
        name_of: Callable[[KafkaUuid], str],
        version: int = EPOCHS_SINCE,
    ) -> None:
        self.broker_epoch = -1
        self._broker_id = broker_id
        self._heap = heap
        self._process = process
        self._channel = channel
        self._controller = controller
        self._settled = settled
        self._name_of = name_of
        self.version = version
        self._wanted: dict[PartitionId, Proposal] = {}
        self._is_scheduled = False

    def propose(self, proposal: Proposal) -> bool:
        """Queue a proposal; return False if one for the same partition is pending."""
        if proposal.where in self._wanted:
            return False
        self._wanted[proposal.where] = proposal
        self._send_later(0.0)
        return True

    def _send_later(self, delay_ms: float) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._heap.call_later(delay_ms, self._send, b"alter partition", self._process)

    def _send(self) -> None:
        self._is_scheduled = False
        if self._channel.is_waiting or not self._wanted:
            return
        address = self._controller()
        if address is None:
            self._send_later(RETRY_MS)
            return
        proposals = list(self._wanted.values())
        names = {proposal.where.topic_id: self._name_of(proposal.where.topic_id) for proposal in proposals}
        request = request_of(self._broker_id, self.broker_epoch, proposals, self.version, names)
        self._channel.send(address, request, self.version, partial(self._on_response, proposals, names))

    def _on_response(
        self, proposals: Sequence[Proposal], names: Mapping[KafkaUuid, str], message: Message | None
    ) -> None:
        again = True
        if isinstance(message, alter_partition_response.AlterPartitionResponse) and not message.error_code:
            results = decode_response(message, {name: topic_id for topic_id, name in names.items()})
            again = False
            for proposal in proposals:
                error, partition = results.get(proposal.where, (ErrorCode.UNKNOWN_SERVER_ERROR, None))
                if error in FINAL:
                    del self._wanted[proposal.where]
                    self._settled(proposal, error, partition)
                else:
                    again = True
        if self._wanted:
            self._send_later(RETRY_MS if again else 0.0)


def request_of(
    broker_id: int,
    broker_epoch: int,
    proposals: Sequence[Proposal],
    version: int = EPOCHS_SINCE,
    names: Mapping[KafkaUuid, str] | None = None,
) -> alter_partition_request.AlterPartitionRequest:
    """Build a request, which always reports the leader as recovered. `names` has the names of topics by id, for
    versions without topic ids."""
    wire = alter_partition_request
    topics: dict[KafkaUuid, list[alter_partition_request.PartitionData]] = {}
    for proposal in proposals:
        partition = wire.PartitionData(
            proposal.where.number, proposal.leader_epoch, partition_epoch=proposal.partition_epoch
        )
        if version >= EPOCHS_SINCE:
            partition.new_isr_with_epochs = [wire.BrokerState(*member) for member in proposal.isr]
        else:
            partition.new_isr = list(proposal.members)
        topics.setdefault(proposal.where.topic_id, []).append(partition)
    by_id = version >= TOPIC_IDS_SINCE
    return wire.AlterPartitionRequest(
        broker_id,
        broker_epoch,
        [
            wire.TopicData("", topic_id, partitions)
            if by_id
            else wire.TopicData((names or {}).get(topic_id, ""), ZERO_UUID, partitions)
            for topic_id, partitions in topics.items()
        ],
    )


def decode_response(
    message: alter_partition_response.AlterPartitionResponse,
    topic_ids: Mapping[str, KafkaUuid] | None = None,
) -> dict[PartitionId, tuple[ErrorCode, Partition | None]]:
    """Return errors and, for successes, the new partitions, of which only leader, ISR and epochs are known.
    `topic_ids` has the ids of the requested topics by name, for versions without topic ids."""
    found: dict[PartitionId, tuple[ErrorCode, Partition | None]] = {}
    for topic in message.topics:
        topic_id = (topic_ids or {})[topic.topic_name] if topic.topic_id == ZERO_UUID else topic.topic_id
        for part in topic.partitions:
            error = ErrorCode(part.error_code)
            partition = None
            if error is ErrorCode.NONE:
                partition = Partition(
                    (), tuple(part.isr), part.leader_id, part.leader_epoch, part.partition_epoch
                )
            found[PartitionId(topic_id, part.partition_index)] = error, partition
    return found
