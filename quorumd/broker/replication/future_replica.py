"""The future replica: the copy of a replica's log in the directory to which it moves (KIP-113)."""

from __future__ import annotations

from quorumd.broker.replication.replica_log import NO_EPOCH, ReplicaLog, divergence, truncation_offset
from quorumd.ids import OffsetAndEpoch


def align(current: ReplicaLog, future: ReplicaLog) -> bool:
    """Make the future log a prefix of the current log, with the same log start offset.

    Returns False if another call may have to truncate more. Raises the errors of the future log.
    """
    start = current.start_offset
    if future.end_offset <= start and future.start_offset < start:
        future.reset(start)
    diverging = _divergence(current, future)
    if diverging is not None:
        future.truncate(truncation_offset(future, diverging))
        return False
    if future.start_offset < start:
        future.delete_before(start)
    return True


def _divergence(current: ReplicaLog, future: ReplicaLog) -> OffsetAndEpoch | None:
    epoch, end = future.last_epoch, OffsetAndEpoch(current.end_offset, current.last_epoch)
    if NO_EPOCH in (epoch, current.last_epoch):
        return end if future.end_offset > current.end_offset else None
    if current.end_of_epoch(epoch) is None:
        return end
    return divergence(current, epoch, future.end_offset)


def is_caught_up(current: ReplicaLog, future: ReplicaLog) -> bool:
    """Whether an aligned future log has every record; if so, it gets the current leader epoch, which may have no
    records, too."""
    if future.end_offset < current.end_offset:
        return False
    if future.last_epoch < current.last_epoch:
        future.start_epoch(current.last_epoch)
    return True
