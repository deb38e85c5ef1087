"""The fast path for a fetch that repeats the last one of a follower of an idle partition."""

from __future__ import annotations

from quorumd.broker.replication.replica import L, Replica


def count_repeated(
    replica: Replica[L],
    replica_id: int,
    broker_epoch: int,
    leader_epoch: int,
    offset: int,
    log_start_offset: int,
    high_watermark: int,
    start_offset: int,
    now_ms: float,
) -> bool:
    """Record a fetch that repeats the last one, if the follower already knows everything in its response: the high
    watermark and the log start offset. Return whether it was recorded.

    Much cheaper than `Replica.serve_fetch`, which such a fetch does not need: the follower is in the ISR and caught
    up, and every record is committed. `high_watermark` and `start_offset` are the leader's offsets that the follower
    knows; the other arguments are fields of a ReplicaFetch.
    """
    leadership, metadata, log = replica.leadership, replica.metadata, replica.log
    if leadership is None or metadata is None or leadership.epoch != leader_epoch:
        return False
    end = log.end_offset
    if not offset == end == replica.high_watermark == high_watermark or log.start_offset != start_offset:
        return False
    follower = leadership.followers.get(replica_id)
    if (
        follower is None
        or follower.end_offset != end
        or follower.broker_epoch != broker_epoch
        or replica_id not in metadata.isr
    ):
        return False
    follower.update(end, log_start_offset, broker_epoch, end, now_ms)
    return True
