"""The log of one replica, in Kafka's directory format, on the Disk port.

    <log dir>/meta.properties                    as for the metadata log
    <log dir>/.kafka_cleanshutdown               broker epoch of the last clean shutdown (.clean_shutdown)
    <log dir>/replication-offset-checkpoint      high watermarks (.offset_checkpoint)
    <log dir>/recovery-point-offset-checkpoint   recovery points: everything below is flushed (.offset_checkpoint)
    <log dir>/log-start-offset-checkpoint        log start offsets above the first segment (.offset_checkpoint)
    <log dir>/cleaner-offset-checkpoint          offsets up to which logs are compacted (.offset_checkpoint)
    <log dir>/<topic>-<partition>/
        partition.metadata                       topic id
        leader-epoch-checkpoint                  leader epochs and their start offsets (.leader_epochs)
        %020d.log .index .timeindex              batches and sparse indexes
        %020d.snapshot                           producer state at that offset (.producer_snapshot)
        %020d.txnindex                           aborted transactions (.transaction_index)

`PartitionLog` (.partition_log) is what a replica uses:

    log, report = PartitionLog.open(disk, directory, settings, recovery_point=0, start_offset=0, is_clean=False)
        Recovers the log (.log_recovery). After an unclean shutdown it verifies every batch from the segment that
        contains `recovery_point` on, truncates after the last valid batch, and rebuilds indexes, epochs and producer
        state; after a clean shutdown it reads only the indexes and the newest producer snapshot. Raises CorruptLog,
        StorageError.
    log.start_offset  log.end_offset  log.last_epoch  log.size_bytes  log.recovery_point
        `last_epoch` is -1 if there is none. Truncation lowers the recovery point: save its checkpoint before the next
        append.
    log.settings                                          replaced when topic configs change
    log.append_as_leader(records, epoch, now_ms, wall_ms, origin=CLIENT)
        -> Appended(base_offset, last_offset, log_append_time_ms, is_duplicate)
        Validates the single batch of a producer (.validation): CRC, magic, size and timestamps. The caller has
        validated the keys of compacted topics (`validate_keys`). Checks its producer epoch and sequence numbers
        (.producer_state), sets the base offset and the leader epoch, which the CRC does not cover, and appends it. A
        duplicate batch of an idempotent producer is not appended; the result has the
        offsets of the original. Raises RequestError(error, message) with the log unchanged, DiskFull, FlushFailed.
    log.append_marker(producer_id, producer_epoch, marker, epoch, now_ms, wall_ms, transaction_version=0)
        Appends the marker that ends a transaction (.transaction_marker).
    log.append_as_follower(records, now_ms=0.0) -> end offset
        Appends the leader's batches unchanged; they start at `end_offset` or above (compaction leaves gaps).
        Raises CorruptLog for invalid batches, ValueError for a batch below the log end offset.
    log.start_epoch(epoch)                                starts a new leader epoch at the log end offset
    log.read(offset, max_bytes, max_offset, at_least_one=True) -> bytes
        Whole batches from the one that contains or follows `offset`, up to `max_offset` (exclusive).
    log.find(...) -> bytes | StoredBatches                the same; 64 KiB and more are read only when they are sent
    log.end_of_epoch(epoch) -> OffsetAndEpoch | None      KIP-101 (.leader_epochs)
    log.truncate(end_offset)  log.reset(start_offset)     durable when they return
    log.delete_before(offset) -> bytes freed              raises the log start offset, removes the segments below it
    log.enforce_retention(wall_ms, high_watermark) -> bytes freed
        Deletes segments by time, size and log start offset; expires idle producers.
    log.offset_of_timestamp(timestamp_ms, max_offset) -> TimestampOffset | None
    log.max_timestamp() -> TimestampOffset | None         KIP-734
    log.last_stable_offset(high_watermark)                end of what read_committed consumers may read
    log.aborted_transactions(start, end)                  for read_committed fetches
    log.producers                                         states by producer id (.producer_state)
    log.needs_flush(now_ms)                               by flush.messages and flush.ms, or if a segment was sealed
    log.begin_flush() -> flush                            as in `quorumd.log.segmented_log` (.log_flush)
    plan_compaction(log, wall_ms, high_watermark)         `cleanup.policy=compact` (.compaction)
    log.close()                                           flushes, writes indexes and a producer snapshot

Coordinators on this broker append with `origin=COORDINATOR`. The caller verifies that the transaction includes the
partition (`log.producers.has_open_transaction`, KIP-890). Appends and reads do not decode records.

The other modules:

    appended            the result of an append
    records             locates and copies the records of a batch without decoding them
    record_stream       reads the records of a batch in steps, without keeping them
    decompression       snappy and lz4, in the framing of Kafka's clients
    segment_list        the segments in order, and the files to sync on the next flush
    log_retention       the segments to delete by time and size
    timestamps          looks up offsets by timestamp
    producer_snapshots  the producer snapshots of a log
    compaction_filter   the batches and records that a compaction keeps
    compaction_files    crash-safe replacement of segments by a compacted one

The index files of a sealed segment are written once its batches are flushed (.data_segment). Sparse indexes, atomic
file replacement and batch extents come from `quorumd.log`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PartitionLogSettings:
    """The topic configs of a log, with Kafka's names and defaults. Sizes are in bytes, times in ms."""

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
