"""The log of one replica, in Kafka's directory format, on the Disk port.

    <log dir>/meta.properties                    as for the metadata log
    <log dir>/.kafka_cleanshutdown               the broker epoch, while no broker runs there (.clean_shutdown)
    <log dir>/replication-offset-checkpoint      high watermarks (.offset_checkpoint)
    <log dir>/recovery-point-offset-checkpoint   offsets below which logs are flushed (.offset_checkpoint)
    <log dir>/log-start-offset-checkpoint        log start offsets above the first segment's (.offset_checkpoint)
    <log dir>/<topic>-<partition>/
        partition.metadata                       topic id
        leader-epoch-checkpoint                  epochs and their start offsets
        %020d.log .index .timeindex              batches and sparse indexes
        %020d.snapshot                           producers at that offset (.producer_snapshot)
        %020d.txnindex                           aborted transactions (.transaction_index)

`PartitionLog` (.partition_log) is what a replica uses:

    log, report = PartitionLog.open(disk, directory, settings, recovery_point=0, start_offset=0, is_clean=False)
        Recovers: after an unclean stop verifies every batch from `recovery_point` on, truncates after the last valid
        one, rebuilds indexes, epochs and producers; after a clean stop reads indexes and the newest producer
        snapshot only. Raises CorruptLog or StorageError.
    log.start_offset  log.end_offset  log.last_epoch  log.size_bytes  log.recovery_point
    log.append_as_leader(records, epoch, now_ms, wall_ms) -> Appended(base_offset, last_offset, log_append_time_ms)
        Verifies batches of a producer (.validation): CRC, magic, size, timestamps, and that sequences continue
        (.producer_state), then stamps base offsets and the epoch, which the CRC does not cover, and appends. A
        repeated batch of an idempotent producer is not appended again; its offsets are returned. Raises
        InvalidBatch(error, message) with the log unchanged, DiskFull, StorageError.
    log.append_as_follower(records) -> end offset
        Appends the leader's batches as they are; they start at `end_offset` or above (compaction leaves gaps).
        Raises CorruptLog for bad bytes, ValueError for a batch below the end.
    log.read(offset, max_bytes, max_offset, at_least_one=True) -> bytes
        Whole batches from the one that contains `offset`, of offsets below `max_offset`.
    log.end_of_epoch(epoch) -> OffsetAndEpoch | None      KIP-101, section 5.7 of KIP-966's description
    log.truncate(end_offset)  log.reset(start_offset)     durable when they return
    log.delete_before(offset)                             raises the log start offset; whole segments below it go
    log.retain(wall_ms, high_watermark) -> bytes freed    by time, size and start offset
    log.offset_of_timestamp(timestamp_ms, max_offset) -> TimestampOffset | None
    log.max_timestamp() -> TimestampOffset | None         KIP-734
    log.last_stable_offset(high_watermark)                below the first open transaction
    log.aborted_transactions(start, end)                  for read_committed fetches
    log.producers                                         states by producer id (.producer_state)
    log.begin_flush() -> flush                            as `quorumd.log.segmented_log`
    log.compact(...)                                      `cleanup.policy=compact` (.compaction)
    log.close()                                           flushes, writes indexes and the producer snapshot

Segments, sparse indexes and the epoch cache are those of `quorumd.log`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PartitionLogSettings:
    """Topic configs of a log, by their names and with their defaults in Kafka. Sizes in bytes, times in milliseconds."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1024 * 1024 + 12
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * 3600 * 1000
    cleanup_policy: tuple[str, ...] = ("delete",)
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = 2**63 - 1
    message_timestamp_after_max_ms: int = 3600 * 1000
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    delete_retention_ms: int = 24 * 3600 * 1000
    file_delete_delay_ms: int = 60 * 1000
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    max_transaction_timeout_ms: int = 15 * 60 * 1000
