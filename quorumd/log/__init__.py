"""The durable log of the metadata partition, in Kafka's directory format, on the Disk port.

    <log dir>/meta.properties                     version=1, cluster.id, node.id, directory.id
                                                  (.meta_properties)
    <log dir>/bootstrap.checkpoint                the first records of a new cluster (.bootstrap_file)
    <log dir>/.lock                               held while a node uses the directory (.directory_lock)
    <log dir>/replication-offset-checkpoint       a lower bound of the high watermark (.high_watermark_checkpoint)
    <log dir>/__cluster_metadata-0/
        quorum-state                              one JSON line (.quorum_state_file)
        partition.metadata                        version: 0, topic_id: AAAAAAAAAAAAAAAAAAAAAQ
        leader-epoch-checkpoint                   0, count, "epoch start_offset" lines (.epoch_cache)
        %020d.log %020d.index %020d.timeindex     RecordBatches v2, sparse indexes (.segment, .indexes)
        %020d-%010d.checkpoint                    snapshots by end offset and epoch (.snapshot_file), with the
                                                  suffix .part while fetched, <token>.building while built

`SegmentedLog` (.segmented_log) is what a node uses:

    log, report = SegmentedLog.open(disk, directory, settings, known_high_watermark=hw)
        Recovers (.recovery): truncates after the last valid batch, as `report` describes. Raises CorruptLog, with
        the files unchanged, if that would truncate below `known_high_watermark`. The result is durable.
    log.start_offset  log.end_offset  log.last_epoch  log.end_of_epoch(epoch)     -> raft.LogView
    log.append(data, end_offset)
        Appends whole batches, the first of which starts at `log.end_offset`. The caller has verified the CRCs and
        offsets of fetched batches. Rolls segments. Raises DiskFull with the log unchanged.
    log.truncate(end_offset)
        Truncates to the batch boundary at or below `end_offset`, durably; no error if the log ends before it.
    log.read(offset, limit, max_offset=None)
        Returns whole batches from the one that contains `offset`: at least one, up to `limit` bytes, only batches
        that end at or below `max_offset`; b"" at the end. The last appended batches are served from memory
        (.tail_cache). Records are not decoded.
    log.begin_flush() -> flush (.flush)
        Call it on the event thread, and run `flush()` through Disk.submit. When its result arrives, everything below
        `flush.end_offset` is durable, and the next flush may begin. Once a flush has raised FlushFailed, all later
        ones do.
    log.has_free_space()
        False after DiskFull until the file system has free space again.
    log.close()
        Flushes, trims preallocated blocks and writes the indexes, as Kafka's tools expect.

    log.snapshots -> SnapshotStore (.snapshot_store)
        ids                 the complete snapshots, as OffsetAndEpoch(end offset, epoch), ascending
        size(id), read(id, position, limit)
                            for FetchSnapshot, in bytes; None if there is no such snapshot
        stored()            the snapshots with sizes and timestamps, for `.retention`
        part_size(id)       number of bytes already fetched of a snapshot
        write_part(id, position, data)
                            stores fetched bytes; removes parts of other snapshots. Raises DiskFull
        finish_part(id) -> SnapshotSummary
                            Blocks; run it through Disk.submit. Verifies every CRC, that offsets are contiguous from
                            0 to a footer, and that the header has voters; syncs, renames, syncs the directory. Raises
                            CorruptSnapshot with the part removed
        rescan()            lists the directory again, as another process may have added a snapshot
    log.latest_snapshot     the newest id, None if there is none
    log.reset_to_snapshot(snapshot)
        Empties the log, which then starts at the snapshot's end offset, durably.
    log.delete_before(snapshot)
        Advances the log start to the snapshot's end offset: removes older snapshots and segments entirely below it.
        `.retention` decides when: `new_log_start(log.segments(), log.snapshots.stored(), ...)`.

    log.seek_hint(offset)
        Returns a file position near an offset, for `.log_reader.read_log`, which reads the committed batches of a log
        that another process may be writing. The process that builds snapshots reads the log with it.

A log that does not start at offset 0 starts where one of its snapshots ends; `end_of_epoch` and `last_epoch` treat
the epoch of that snapshot as that of the preceding record. If the newest snapshot is ahead of the log, because of a
crash while it was installed, opening the log completes the installation. A snapshot has batches with offsets from 0
and the epoch of its id: a control batch (SnapshotHeader, KRaftVersion, KRaftVoters), data batches, and a control
batch (SnapshotFooter). Fetched and built snapshots are renamed into place only when complete and verified.

The active segment's file may be longer than its batches: blocks are preallocated, because flushing a growing file
costs more. The rest is zeros, at which recovery and `log dump` stop. When the disk is full, the log frees these
blocks. quorum-state has a spare block of its own, so that a vote can still be saved.

Index files and leader-epoch-checkpoint are written only for other readers of the directory: recovery rebuilds them
from the batches where they differ.

The other modules:

    batch_extents       the header fields needed to find a batch or a boundary
    batch_windows       the batches of a file, one window of bytes at a time
    log_reader          the batches of a log that another process may be writing
    partition_metadata  partition.metadata: the topic id of a partition
    remedies            the remedy in error messages about a log directory
    atomic_file         atomic replacement of small files

Small files are replaced with `.atomic_file.write_atomically(disk, path, data)`: write a temporary file, sync, rename,
sync the directory.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Sizes in bytes, times in milliseconds. Defaults are Kafka's for the metadata log, if Kafka has the setting."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    allocate_bytes: int = 8 * 1024 * 1024
    """Number of bytes preallocated after the log end; 0 disables preallocation."""
    reserve_bytes: int = 16 * 1024 * 1024
    """Free space required before a log that was full accepts appends again."""
    snapshot_bytes: int = 20 * 1024 * 1024
    """Build a snapshot once this many bytes have been committed after the newest one."""
    snapshot_ms: int = 3600 * 1000
    """Build a snapshot this long after the newest one if anything has been committed since; 0 disables this."""
    retention_bytes: int = 100 * 1024 * 1024
    """Maximum total size of segments and snapshots before obsolete ones are removed; -1 for no limit
    (`retention`)."""
    retention_ms: int = 7 * 24 * 3600 * 1000
    """Maximum age of the newest record in obsolete segments and snapshots before they are removed; -1 for no
    limit."""
