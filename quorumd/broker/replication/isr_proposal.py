"""An ISR that a leader proposes to the controller with AlterPartition, and what the response means."""

from __future__ import annotations

from typing import Final, NamedTuple

from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode


class IsrProposal(NamedTuple):
    """An ISR as (broker id, broker epoch) pairs, complete; an epoch of -1 is not checked.

    `leader_epoch` and `partition_epoch` are those that the leader knew. The leader is reported as recovered.
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
"""The request was current but had no effect: the committed ISR stays."""

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
"""The controller's state has changed, perhaps through an earlier attempt whose response was lost: the
proposal stays pending until the metadata shows the new state."""

FINAL: Final = frozenset({ErrorCode.NONE}) | REVERTS | AWAITS_METADATA
"""Errors after which a request is not sent again; after any other, and without a response, it is repeated
unchanged."""
