"""The durable log of the metadata partition, in Kafka's directory format, on the Disk port.

    <data folder>/meta.properties                 version=1, cluster.id, node.id, directory.id
                                                  (.meta_properties)
    <data folder>/bootstrap.checkpoint            what an empty log begins with (.bootstrap_file)
    <data folder>/.lock                           held while a node runs on the folder (.folder_lock)
    <data folder>/replication-offset-checkpoint   the high watermark known at the last clean moment
                                                  (.high_watermark_checkpoint)
    <data folder>/__cluster_metadata-0/
        quorum-state                              one JSON line (.quorum_state_file)
        partition.metadata                        version: 0, topic_id: AAAAAAAAAAAAAAAAAAAAAQ
        leader-epoch-checkpoint                   0, count, "epoch start_offset" lines (.epoch_cache)
        %020d.log %020d.index %020d.timeindex     RecordBatches v2, sparse indexes (.segment, .indexes)
        %020d-%010d.checkpoint                    snapshots by end offset and epoch (.snapshot_file); what is
                                                  fetched has .part behind it, what is built <token>.building

`SegmentedLog` (.segmented_log) is what a node uses:

    log, report = SegmentedLog.open(disk, directory, settings, known_high_watermark=hw)
        Recovers (.recovery): cuts the tail at the last valid batch and tells in `report`; raises CorruptLog,
        files untouched, when that would cut below `known_high_watermark`. All that is left is durable.
    log.start_offset  log.end_offset  log.last_epoch  log.end_of_epoch(epoch)     -> raft.LogView
    log.append(data, end_offset)
        One or more whole batches whose first starts at `log.end_offset`; the caller has checked CRC and
        continuity of what came from outside. Rolls segments. Raises DiskFull with the log unchanged.
    log.truncate(end_offset)
        Cut to a batch boundary at or below `end_offset`, durably; never raises for "nothing to cut".
    log.read(offset, limit, below=None)
        Whole batches, the first one containing `offset` (a leader is only asked for batch starts), at least
        one, then up to `limit` bytes; only batches ending at or below `below`; b"" at the end. The batches
        appended last are served from memory (.tail_cache). Readers decode; nothing here looks into records.
    log.begin_flush() -> flush (.flush)
        Call on the event thread, run `flush()` through Disk.submit, begin the next one when its result is
        there. `flush.end_offset` is durable then. Raises FlushFailed, and so does every flush after it.
    log.has_room()
        False after DiskFull until the file system has room again.
    log.close()
        Flushes, trims preallocated blocks, writes indexes: the folder is what a stock reader expects.

    log.snapshots -> SnapshotStore (.snapshot_store)
        ids                 of the whole snapshots here, as OffsetAndEpoch(end offset, epoch), ascending
        size(id), read(id, position, limit)
                            bytes for FetchSnapshot; None where that snapshot is not here (any longer)
        stored()            what `.retention` asks about them
        part_size(id)       bytes of a snapshot that is being fetched which are here already
        write_part(id, position, data)
                            keep fetched bytes; parts of other snapshots are removed. Raises DiskFull
        finish_part(id) -> SnapshotSummary
                            Blocks, run it through Disk.submit: checks every CRC, that the batches follow on each
                            other from offset 0 to a footer, and that the header names voters; syncs, renames,
                            syncs the folder. Raises CorruptSnapshot with the part removed
        rescan()            another process may have put a snapshot there
    log.latest_snapshot     the newest id, None for none
    log.reset_to_snapshot(snapshot)
        The log becomes empty and begins at the end of that snapshot, durably.
    log.delete_before(snapshot)
        The log begins at the end of that snapshot; segments wholly below it and older snapshots are removed.
        `.retention` decides, pure, when and which: `new_log_start(log.segments(), log.snapshots.stored(), ...)`.

    log.near(offset)
        Where to look for an offset in the files, for `.log_walk.walk`: it reads the committed batches of a log that
        another process may be writing, and is what snapshots are built with.

A log that does not begin at offset 0 begins where one of its snapshots ends; `end_of_epoch` and `last_epoch` count
the epoch of that snapshot as that of the record before. If the newest snapshot is ahead of the log (a crash between
the two steps of an installation), opening finishes it. A snapshot is batches with offsets from 0 and the epoch of its
id: a control batch (SnapshotHeader, KRaftVersion, KRaftVoters), data batches, a control batch (SnapshotFooter).
Fetched and built snapshots are renamed into place whole and checked: what is at its name is sound or the disk rotted.

A segment's file may be longer than its batches while it is active: blocks are allocated ahead because a flush
of a growing file costs more. The rest is zeros; recovery and `log dump` stop there. When the disk is full,
the log gives these blocks back, and quorum-state has a spare block of its own: a vote needs little room.

Index files and leader-epoch-checkpoint are written for readers of the folder and never believed: recovery
makes them anew from the batches where they differ.

Small files are replaced by `.atomic_file.write_atomically(disk, path, data)`: temp, sync, rename, sync.
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
    snapshot_bytes: int = 20 * 1024 * 1024
    """So many bytes of committed batches behind the newest snapshot ask for another one."""
    snapshot_ms: int = 3600 * 1000
    """So long after the newest snapshot there shall be another one, if anything was committed since; 0 for never."""
    retention_bytes: int = 100 * 1024 * 1024
    """Segments and snapshots that a newer snapshot makes superfluous are kept up to this size, -1 for any,"""
    retention_ms: int = 7 * 24 * 3600 * 1000
    """and up to this age of their newest record, -1 for any; what either limit says goes is removed."""
