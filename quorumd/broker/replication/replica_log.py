"""The log as a replica uses it, and the comparison of two logs by their leader epochs (KIP-101, KIP-595)."""

from __future__ import annotations

from typing import Final, Protocol

from quorumd.ids import OffsetAndEpoch

NO_EPOCH: Final = -1


class ReplicaLog(Protocol):
    """A log of record batches. `quorumd.broker.log` has the one on disk."""

    @property
    def start_offset(self) -> int:
        """The log start offset."""

    @property
    def end_offset(self) -> int:
        """Last offset + 1."""

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch, NO_EPOCH if there is none."""

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """Return the largest epoch <= `epoch` and its end offset.

        For an epoch below all known ones: itself, with the start of the first known one. None for a later epoch than
        the last one.
        """

    def start_epoch(self, epoch: int) -> None:
        """Start a leader epoch at the log end, before its leader appends."""

    def append_as_follower(self, records: bytes, now_ms: float) -> int:
        """Append batches of the leader unchanged; return the new end offset."""

    def truncate(self, end_offset: int) -> None:
        """Remove the records from `end_offset` on."""

    def reset(self, start_offset: int) -> None:
        """Remove all records; the log then starts at `start_offset`."""

    def delete_before(self, offset: int) -> object:
        """Raise the log start offset."""


def divergence(log: ReplicaLog, last_epoch: int, end_offset: int) -> OffsetAndEpoch | None:
    """Return where a follower's log with this end diverges from the leader's, None if it is a prefix.

    `log.end_of_epoch(last_epoch)` must be known.
    """
    end = log.end_of_epoch(last_epoch)
    assert end is not None, f"epoch {last_epoch} is unknown"
    return end if end.epoch < last_epoch or end.offset < end_offset else None


def truncation_offset(log: ReplicaLog, diverging: OffsetAndEpoch) -> int:
    """Return where a follower truncates after the leader reported a divergence; the next fetch may report another."""
    own = log.end_of_epoch(diverging.epoch)
    if own is None:
        return min(diverging.offset, log.end_offset)
    if own.epoch == diverging.epoch:
        return min(own.offset, diverging.offset, log.end_offset)
    return min(own.offset, log.end_offset)
