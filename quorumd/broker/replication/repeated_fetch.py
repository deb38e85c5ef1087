"""A fetch that repeats the last one of a follower, while nothing happens in the partition."""

from __future__ import annotations

from quorumd.broker.replication.replica import L, Replica
from quorumd.broker.replication.replica_fetch import ReplicaFetch


def count_repeated(
    replica: Replica[L], fetch: ReplicaFetch, high_watermark: int, start_offset: int, now_ms: float
) -> bool:
    """Count the fetch, if it repeats the last one and its response has nothing but what the follower knows: this high
    watermark and log start offset. Returns whether that is so.

    Much cheaper than `Replica.serve_fetch`, which such a fetch does not need: the follower is in the ISR and has
    everything, and everything is committed.
    """
    leadership, log = replica.leadership, replica.log
    end = log.end_offset
    if (
        leadership is None
        or leadership.epoch != fetch.leader_epoch
        or not fetch.offset == end == replica.high_watermark == high_watermark
        or log.start_offset != start_offset
        or fetch.replica_id not in replica.isr
    ):
        return False
    follower = leadership.followers.get(fetch.replica_id)
    if follower is None or follower.end_offset != end or follower.broker_epoch != fetch.broker_epoch:
        return False
    follower.update(end, fetch.start_offset, fetch.broker_epoch, end, now_ms)
    return True
