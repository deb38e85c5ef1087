"""Whose data folder this is, and what was saved in it: read and checked before a node starts."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from quorumd.errors import DiskFull, StorageError
from quorumd.ids import NO_NODE, ReplicaKey
from quorumd.log.atomic_file import read_small, write_atomically
from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.log.meta_properties import MetaProperties, load_meta_properties, partition_folder
from quorumd.log.quorum_state_file import QuorumStateFile, SavedState
from quorumd.ports import Disk
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.voters import VoterAssignment

logger = logging.getLogger("quorumd.node")

BOOT_TIMESTAMP_FILE = "boot-timestamp"
_TIMESTAMP = re.compile(rb"[0-9]{1,18}")
"""Fits an int64, also with one more."""


@dataclass(slots=True)
class SavedNode:
    """What a data folder says of its node."""

    meta: MetaProperties
    state: SavedState
    known_high_watermark: int

    @property
    def cluster_id(self) -> str | None:
        """The committed one. quorum-state may have it first: meta.properties is written a moment later."""
        return self.meta.cluster_id or self.state.cluster_id or None

    @property
    def quorum_state(self) -> QuorumState:
        state = self.state
        voted = None
        if state.voted_id != NO_NODE:
            voted = ReplicaKey(state.voted_id, state.voted_directory_id)
        return QuorumState(state.leader_epoch, state.leader_id, voted, state.catching_up)


def to_save(
    state: QuorumState,
    cluster_id: str | None,
    node_id: int,
    committed_offset: int,
    committed_voters: VoterAssignment,
) -> SavedState:
    """What goes into quorum-state: the engine's state, and with it only what is committed (hole 22)."""
    voted = state.voted or ReplicaKey(NO_NODE)
    return SavedState(
        state.epoch,
        state.leader_id,
        voted.id,
        voted.directory_id,
        cluster_id or "",
        node_id,
        committed_offset,
        committed_voters.current.ids,
        committed_voters.target,
        state.catching_up,
    )


def load_saved_node(disk: Disk, data_folder: str, node_id: int) -> SavedNode:
    """Read the folder of a node. Raises StorageError for a folder that is not formatted or not this node's,
    CorruptLog for files that cannot be understood (holes 21, 39)."""
    meta = load_meta_properties(disk, data_folder)
    if meta is None:
        raise StorageError(
            f"{data_folder} is not formatted: run `quorumd format` with this node's properties"
        )
    if meta.node_id != node_id:
        raise StorageError(
            f"{data_folder} belongs to node {meta.node_id}, the properties are those of node {node_id}; "
            "give each node its own folder"
        )
    state = QuorumStateFile(disk, partition_folder(data_folder)).load() or SavedState()
    if state.broker_id not in (NO_NODE, node_id):
        raise StorageError(
            f"{partition_folder(data_folder)}/quorum-state was written by node {state.broker_id}, "
            f"not by node {node_id}; a copied folder would vote twice: format a new one"
        )
    if state.cluster_id and meta.cluster_id and state.cluster_id != meta.cluster_id:
        raise StorageError(
            f"{partition_folder(data_folder)}/quorum-state is of cluster {state.cluster_id}, "
            f"the folder is formatted for cluster {meta.cluster_id}"
        )
    return SavedNode(meta, state, HighWatermarkCheckpoint(disk, data_folder).load())


def next_boot_timestamp(disk: Disk, data_folder: str, wall_ms: int) -> int:
    """A boot timestamp larger than all before it, even if the wall clock went back (hole 26). Blocks.

    Whatever else is in the file is no timestamp, and is replaced.
    """
    path = f"{data_folder}/{BOOT_TIMESTAMP_FILE}"
    last = (read_small(disk, path) or b"").strip()
    timestamp = max(wall_ms, int(last) + 1 if _TIMESTAMP.fullmatch(last) else 0)
    try:
        write_atomically(disk, path, b"%d\n" % timestamp)
    except DiskFull as full:
        # Without room a node can still vote and serve; only a clock that goes back before the next start matters.
        logger.warning("%s", full)
    return timestamp
