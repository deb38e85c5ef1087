"""An ISR that a leader proposes to the controller with AlterPartition, and the meaning of the response."""

from __future__ import annotations

from typing import Final, NamedTuple

from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode


class IsrProposal(NamedTuple):
    """A complete ISR as (broker id, broker epoch) pairs; the controller does not check an epoch of -1.

    `leader_epoch` and `partition_epoch` are the epochs that the leader knows. The proposal reports the leader as
    recovered.
    """

    partition: PartitionId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, _ in self.isr)


class CommittedIsr(NamedTuple):
    """The state of the partition in a successful response."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


REVERTS: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The request was current but had no effect: the committed ISR is unchanged."""

AWAITS_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller's state has changed, possibly by an earlier attempt whose response was lost. The proposal stays
pending until the metadata has the new state."""

FINAL: Final = frozenset({ErrorCode.NONE}) | REVERTS | AWAITS_METADATA
"""Errors after which a proposal is not sent again. After any other error, or if the response is lost, it is retried
unchanged."""
