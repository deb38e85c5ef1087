"""Recovery of the data directory at the start of a node."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.ids import ReplicaKey
from quorumd.log.meta_properties import partition_directory
from quorumd.log.quorum_state_file import QuorumStateFile
from quorumd.log.recovery import RecoveryReport
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.identity.identity_files import SavedNode, load_saved_node, require_quorum_state
from quorumd.node.settings import NodeSettings
from quorumd.node.state.bootstrap_records import load_new_cluster
from quorumd.node.state.snapshot_loader import StartSnapshot, find_start_snapshot
from quorumd.node.wire.voter_records import VoterRecord, scan_voter_records
from quorumd.ports import Disk
from quorumd.protocol.wire import Message
from quorumd.raft.voters import VoterHistory, VoterSet


class RecoveredData(NamedTuple):
    """The content of the data directory at the start of a node."""

    saved: SavedNode
    log: SegmentedLog
    recovery_report: RecoveryReport
    state_file: QuorumStateFile
    start_snapshot: StartSnapshot
    """The snapshot that the node starts with."""
    voter_records: list[VoterRecord]
    """The voter records in `start_snapshot` and in the log after it."""
    bootstrap: list[Message]
    """The records of a new cluster, which a leader appends to an empty log."""
    founders: VoterSet | None
    """See `Founding.formatted`."""

    def voter_history(self) -> VoterHistory:
        return VoterHistory((record.offset, record.assignment) for record in self.voter_records)


def recover_data(disk: Disk, settings: NodeSettings) -> RecoveredData:
    """Open and recover the directory; blocks. Raises StorageError if it is unusable, CorruptLog if it is damaged."""
    saved = load_saved_node(disk, settings.data_directory, settings.node_id, settings.advertised.name)
    directory = partition_directory(settings.data_directory)
    log, report = SegmentedLog.open(disk, directory, settings.log, saved.known_high_watermark)
    start_snapshot = find_start_snapshot(log)
    log_is_empty = log.end_offset == 0
    new_cluster = load_new_cluster(disk, settings.data_directory, log_is_empty=log_is_empty)
    found = [
        *([start_snapshot.voters] if start_snapshot.voters is not None else ()),
        *scan_voter_records(log.read, start_snapshot.offset, log.end_offset),
    ]
    voters = found[-1].assignment.current if found else VoterSet()
    require_quorum_state(saved, settings.data_directory, log_is_empty, voters)
    founders = saved.founders
    if founders is None and new_cluster.voters is not None and not saved.has_state:
        founders = _founders(new_cluster.voters, ReplicaKey(saved.meta.node_id, saved.meta.directory_id))
    state_file = QuorumStateFile(disk, directory)
    return RecoveredData(saved, log, report, state_file, start_snapshot, found, new_cluster.records, founders)


def _founders(voters: VoterSet, own: ReplicaKey) -> VoterSet:
    """The voters that `kafka-storage format` named; none if this directory is not among them and founds no quorum."""
    return voters if any(voter.key == own for voter in voters.voters) else VoterSet()
