"""AlterPartition as a broker sends it: one request at a time, again and again until it is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from quorumd.controller.partition import Partition, PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import alter_partition_request, alter_partition_response
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.replica import Proposal
from quorumd.simulator.brokers.request_channel import Address, Channel
from quorumd.simulator.environment.event_heap import EventHeap, Process

VERSION: Final = 3
RETRY_MS: Final = 50.0
FINAL: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""What ends a proposal; everything else is tried again."""

Settled = Callable[[Proposal, ErrorCode, Partition | None], None]


class IsrChanges:
    """Proposals of all partitions that a broker leads. `controller()`: where the leader of the quorum is, if known.
    `settled(proposal, error, answer)`: the answer to one of them."""

    def __init__(
        self,
        broker_id: int,
        heap: EventHeap,
        process: Process,
        channel: Channel,
        controller: Callable[[], Address | None],
        settled: Settled,
    ) -> None:
        self.broker_epoch = -1
        self._broker_id = broker_id
        self._heap = heap
        self._process = process
        self._channel = channel
        self._controller = controller
        self._settled = settled
        self._wanted: dict[PartitionId, Proposal] = {}
        self._is_scheduled = False

    def propose(self, proposal: Proposal) -> bool:
        """False if one for the same partition has no answer yet."""
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
        request = request_of(self._broker_id, self.broker_epoch, proposals)
        self._channel.ask(address, request, VERSION, partial(self._answered, proposals))

    def _answered(self, proposals: Sequence[Proposal], message: Message | None) -> None:
        again = True
        if isinstance(message, alter_partition_response.AlterPartitionResponse) and not message.error_code:
            answers = decode_response(message)
            again = False
            for proposal in proposals:
                error, answer = answers.get(proposal.where, (ErrorCode.UNKNOWN_SERVER_ERROR, None))
                if error in FINAL:
                    del self._wanted[proposal.where]
                    self._settled(proposal, error, answer)
                else:
                    again = True
        if self._wanted:
            self._send_later(RETRY_MS if again else 0.0)


def request_of(
    broker_id: int, broker_epoch: int, proposals: Sequence[Proposal]
) -> alter_partition_request.AlterPartitionRequest:
    """A leader says that it has recovered whenever it asks for anything."""
    wire = alter_partition_request
    topics: dict[KafkaUuid, list[alter_partition_request.PartitionData]] = {}
    for proposal in proposals:
        topics.setdefault(proposal.where.topic_id, []).append(
            wire.PartitionData(
                proposal.where.number,
                proposal.leader_epoch,
                new_isr_with_epochs=[wire.BrokerState(*member) for member in proposal.isr],
                partition_epoch=proposal.partition_epoch,
            )
        )
    return wire.AlterPartitionRequest(
        broker_id,
        broker_epoch,
        [wire.TopicData("", topic_id, partitions) for topic_id, partitions in topics.items()],
    )


def decode_response(
    message: alter_partition_response.AlterPartitionResponse,
) -> dict[PartitionId, tuple[ErrorCode, Partition | None]]:
    """Error, and of a success what the partition is now; only leader, ISR and epochs of that are told."""
    found: dict[PartitionId, tuple[ErrorCode, Partition | None]] = {}
    for topic in message.topics:
        for part in topic.partitions:
            error = ErrorCode(part.error_code)
            answer = None
            if error is ErrorCode.NONE:
                answer = Partition(
                    (), tuple(part.isr), part.leader_id, part.leader_epoch, part.partition_epoch
                )
            found[PartitionId(topic.topic_id, part.partition_index)] = error, answer
    return found
