"""Sends the ISR proposals of a broker's leaders to the controller, in one AlterPartition request at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from quorumd.broker.channels.controller_channel import ControllerChannel
from quorumd.broker.controller_requests.repeated_request import RepeatedRequest
from quorumd.broker.replication.isr_proposal import FINAL, CommittedIsr, IsrProposal
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.alter_partition_response import AlterPartitionResponse
from quorumd.protocol.messages.alter_partition_response import PartitionData as PartitionResult

logger = logging.getLogger("quorumd.broker")

RETRY_MS: Final = 50.0
BROKER_EPOCHS_SINCE: Final = 3
"""The first version in which the members of an ISR have broker epochs."""
FinalCallback = Callable[[IsrProposal, ErrorCode, "CommittedIsr | None"], None]


class AlterPartitionChannel:
    """Sends every proposal until it has a final response. Each request contains all waiting proposals.

    `broker_epoch()` returns the epoch of this broker. `on_final(proposal, error, committed)` is called once per
    proposal.
    """

    def __init__(
        self,
        clock: Clock,
        channel: ControllerChannel,
        broker_id: int,
        broker_epoch: Callable[[], int],
        on_final: FinalCallback,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._on_final = on_final
        self._waiting: dict[PartitionId, IsrProposal] = {}
        """Proposals without a final response, oldest first."""
        self._requests: RepeatedRequest[list[IsrProposal], AlterPartitionResponse] = RepeatedRequest(
            clock,
            channel,
            ApiKey.ALTER_PARTITION,
            RETRY_MS,
            lambda: list(self._waiting.values()) or None,
            self._build,
            self._handle_response,
        )

    def propose(self, proposal: IsrProposal) -> bool:
        """Send a proposal; return False if stopped, or while an earlier proposal for the partition waits."""
        if self._requests.is_stopped or proposal.partition in self._waiting:
            return False
        self._waiting[proposal.partition] = proposal
        self._requests.send()
        return True

    def stop(self) -> None:
        """Stop sending requests."""
        self._requests.stop()

    def _build(self, proposals: list[IsrProposal], version: int) -> AlterPartitionRequest:
        return build_request(self._broker_id, self._broker_epoch(), proposals, version)

    def _handle_response(self, sent: list[IsrProposal], response: AlterPartitionResponse) -> float | None:
        results = decode_response(response)
        for proposal in sent:
            if proposal.partition in results:
                self._complete(proposal, *results[proposal.partition])
        if not self._waiting:
            return None
        is_retried = any(self._waiting.get(proposal.partition) is proposal for proposal in sent)
        return RETRY_MS if is_retried else 0.0

    def _complete(self, proposal: IsrProposal, error: ErrorCode, committed: CommittedIsr | None) -> None:
        if error not in FINAL:
            logger.info("%s will be retried: %s", proposal, error.name)
            return
        del self._waiting[proposal.partition]
        self._on_final(proposal, error, committed)


def decode_response(
    response: AlterPartitionResponse,
) -> dict[PartitionId, tuple[ErrorCode, CommittedIsr | None]]:
    """Return the error of each partition, or NONE and its state."""
    return {
        PartitionId(topic.topic_id, result.partition_index): _decode(result)
        for topic in response.topics
        for result in topic.partitions
    }


def _decode(result: PartitionResult) -> tuple[ErrorCode, CommittedIsr | None]:
    try:
        error = ErrorCode(result.error_code)
    except ValueError:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    if error is not ErrorCode.NONE:
        return error, None
    return error, CommittedIsr(
        result.leader_id, result.leader_epoch, tuple(result.isr), result.partition_epoch
    )


def build_request(
    broker_id: int, broker_epoch: int, proposals: Iterable[IsrProposal], version: int = BROKER_EPOCHS_SINCE
) -> AlterPartitionRequest:
    """Build the request of the broker that leads these partitions."""
    topics: dict[KafkaUuid, TopicData] = {}
    for proposal in proposals:
        topic = topics.setdefault(
            proposal.partition.topic_id, TopicData(topic_id=proposal.partition.topic_id)
        )
        data = PartitionData(
            proposal.partition.number,
            proposal.leader_epoch,
            leader_recovery_state=0,
            partition_epoch=proposal.partition_epoch,
        )
        if version >= BROKER_EPOCHS_SINCE:
            data.new_isr_with_epochs = [BrokerState(member, epoch) for member, epoch in proposal.isr]
        else:
            data.new_isr = list(proposal.members)
        topic.partitions.append(data)
    return AlterPartitionRequest(broker_id, broker_epoch, list(topics.values()))
