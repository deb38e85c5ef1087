"""The log as a replica uses it, and the comparison of two logs by their leader epochs (KIP-101, KIP-595)."""

from __future__ import annotations

from typing import Final, Protocol

from quorumd.ids import OffsetAndEpoch

NO_EPOCH: Final = -1


class ReplicaLog(Protocol):
    """A log of record batches; `quorumd.broker.log` has the implementation on disk."""

    @property
    def start_offset(self) -> int:
        """The log start offset."""

    @property
    def end_offset(self) -> int:
        """The log end offset: the last offset + 1."""

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch, NO_EPOCH if there is none."""

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """Return the largest epoch <= `epoch` and its end offset.

        For an epoch below all known epochs, the epoch itself and the start offset of the first known epoch. None for
        an epoch above the last one.
        """

    def start_epoch(self, epoch: int) -> None:
        """Start a leader epoch at the log end offset, before its leader appends."""

    def append_as_follower(self, records: bytes, now_ms: float) -> int:
        """Append batches of the leader unchanged; return the new end offset."""

    def truncate(self, end_offset: int) -> None:
        """Remove the records from `end_offset` on."""

    def reset(self, start_offset: int) -> None:
        """Remove all records; the log then starts at `start_offset`."""

    def delete_before(self, offset: int) -> object:
        """Raise the log start offset."""


def divergence(log: ReplicaLog, last_epoch: int, end_offset: int) -> OffsetAndEpoch | None:
    """Return where a follower's log diverges from the leader's `log`, None if it is a prefix.

    `last_epoch` and `end_offset` are the end of the follower's log; `log` must know `last_epoch`.
    """
    end = log.end_of_epoch(last_epoch)
    assert end is not None, f"epoch {last_epoch} is unknown"
    return end if end.epoch < last_epoch or end.offset < end_offset else None


def truncation_offset(log: ReplicaLog, diverging: OffsetAndEpoch) -> int:
    """Return the offset to which a follower truncates its `log` for a divergence that the leader has reported.

    The next fetch may report an earlier divergence.
    """
    own = log.end_of_epoch(diverging.epoch)
    if own is None:
        return min(diverging.offset, log.end_offset)
    if own.epoch == diverging.epoch:
        return min(own.offset, diverging.offset, log.end_offset)
    return min(own.offset, log.end_offset)
