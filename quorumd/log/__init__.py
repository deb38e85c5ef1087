"""The durable log of the metadata partition, in Kafka's directory format, on the Disk port.

    <data folder>/meta.properties                       version=1, cluster.id, node.id, directory.id (.meta_properties)
    <data folder>/.lock                                 held while a node runs on the folder
    <data folder>/replication-offset-checkpoint         the high watermark known at the last clean moment
    <data folder>/__cluster_metadata-0/
        quorum-state                                    one JSON line (.quorum_state_file)
        partition.metadata                              version: 0, topic_id: AAAAAAAAAAAAAAAAAAAAAQ
        leader-epoch-checkpoint                         0, count, "epoch start_offset" lines (.epoch_cache)
        %020d.log  %020d.index  %020d.timeindex         RecordBatches v2, sparse indexes (.segment, .indexes)

`SegmentedLog` (.segmented_log) is what a node uses:

    log, report = SegmentedLog.open(disk, directory, settings, known_high_watermark=hw)
        Recovers: cuts the tail at the last valid batch and says so in `report`; raises CorruptLog when that would
        cut below `known_high_watermark`, or when a sealed segment is damaged.
    log.start_offset  log.end_offset  log.last_epoch  log.end_of_epoch(epoch)     -> raft.LogView
    log.append(data, end_offset)        one or more whole batches whose first starts at `log.end_offset`; the
                                        caller has checked CRC and continuity of what came from outside. Rolls
                                        segments. Raises DiskFull with the log unchanged.
    log.truncate(end_offset)            cut to a batch boundary at or below `end_offset`; never raises for "nothing"
    log.read(offset, limit, below=None) whole batches, the first one containing `offset` (a leader is only asked
                                        for batch starts), at least one, then up to `limit` bytes; b"" at the end;
                                        only batches ending at or below `below`. Also `timestamp_of`-style helpers
                                        are not here: readers decode.
    log.begin_flush() -> operation      call on the event thread, run `operation()` through Disk.submit: returns
                                        the end offset that is durable then; raises FlushFailed
    log.has_room()                      False after DiskFull until the file system has room again
    log.close()                         trims preallocated blocks, writes indexes; the log is then exactly what
                                        a stock reader expects

A segment's file may be longer than its batches while it is active: blocks are allocated ahead because a flush of
a growing file costs more. The rest is zeros; recovery and `log dump` stop there.

Atomic small files are written by `.atomic_file.write_atomically(disk, path, data)`: temp, sync, rename, sync folder.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Sizes in bytes, times in milliseconds; defaults are Kafka's for the metadata log."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    allocate_bytes: int = 8 * 1024 * 1024
    """How far ahead of the end blocks are allocated; 0 for never."""
    reserve_bytes: int = 16 * 1024 * 1024
    """Room that must be free on the disk before a log that was full takes appends again."""
