"""Whose data folder this is, and what was saved in it: read and checked before a node starts."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from quorumd.errors import DiskFull, StorageError
from quorumd.ids import NO_NODE, Endpoint, ReplicaKey
from quorumd.log.atomic_file import read_small_file, write_atomically
from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.log.meta_properties import MetaProperties, load_meta_properties, partition_folder
from quorumd.log.quorum_state_file import Founder, QuorumStateFile, SavedState
from quorumd.log.remedies import REFORMAT_REMEDY
from quorumd.ports import Disk
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet

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
    listener_name: str
    has_state: bool
    """Whether there is a quorum-state."""

    @property
    def founders(self) -> VoterSet | None:
        """With whom this node may found a quorum, as it was formatted or permitted before; None: not decided."""
        found = self.state.founders
        if found is None:
            return None
        return VoterSet(
            tuple(
                Voter(ReplicaKey(f.voter_id, f.directory_id), (Endpoint(self.listener_name, f.host, f.port),))
                for f in found
            )
        )

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


def to_saved_state(
    state: QuorumState,
    cluster_id: str | None,
    node_id: int,
    committed_offset: int,
    committed_voters: VoterAssignment,
    founders: VoterSet | None,
) -> SavedState:
    """What goes into quorum-state: the engine's state, with it only what is committed (hole 22), and as long as that
    is no voters, the founders."""
    if committed_voters.current.ids:
        founders = None
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
        None if founders is None else _saved_founders(founders),
    )


def _saved_founders(founders: VoterSet) -> tuple[Founder, ...]:
    return tuple(
        Founder(voter.key.id, voter.key.directory_id, endpoint.host, endpoint.port)
        for voter in founders.voters
        for endpoint in voter.endpoints[:1]
    )


def require_quorum_state(saved: SavedNode, data_directory: str, log_is_empty: bool, voters: VoterSet) -> None:
    """Raises StorageError for a log without quorum-state: the vote is not known, and could be given twice.

    It is saved before anything is fetched, so no crash leaves that behind; only a sole voter may have begun its log
    before, and its vote counts for nobody else.
    """
    own = ReplicaKey(saved.meta.node_id, saved.meta.directory_id)
    is_sole_voter = voters.ids == (own.id,) and voters.includes(own)
    if not (saved.has_state or log_is_empty or is_sole_voter):
        raise StorageError(
            f"{partition_folder(data_directory)}/quorum-state is missing beside a log: it holds the vote of "
            "this node, "
            f"which could vote twice without it; restore the file, or, {REFORMAT_REMEDY}"
        )


def load_saved_node(disk: Disk, data_directory: str, node_id: int, listener_name: str) -> SavedNode:
    """Read the folder of a node. Raises StorageError for a folder that is not formatted or not this node's,
    CorruptLog for files that cannot be understood (holes 21, 39)."""
    meta = load_meta_properties(disk, data_directory)
    if meta is None:
        raise StorageError(
            f"{data_directory} is not formatted: run `quorumd format` with this node's properties"
        )
    if meta.node_id != node_id:
        raise StorageError(
            f"{data_directory} belongs to node {meta.node_id}, the properties are those of node {node_id}; "
            "give each node its own folder"
        )
    found = QuorumStateFile(disk, partition_folder(data_directory)).load()
    state = found or SavedState()
    if state.broker_id not in (NO_NODE, node_id):
        raise StorageError(
            f"{partition_folder(data_directory)}/quorum-state was written by node {state.broker_id}, "
            f"not by node {node_id}; a copied folder would vote twice: format a new one"
        )
    if state.cluster_id and meta.cluster_id and state.cluster_id != meta.cluster_id:
        raise StorageError(
            f"{partition_folder(data_directory)}/quorum-state is of cluster {state.cluster_id}, "
            f"the folder is formatted for cluster {meta.cluster_id}"
        )
    return SavedNode(
        meta, state, HighWatermarkCheckpoint(disk, data_directory).load(), listener_name, found is not None
    )


def next_boot_timestamp(disk: Disk, data_directory: str, wall_ms: int) -> int:
    """A boot timestamp larger than all before it, even if the wall clock went back (hole 26). Blocks.

    Whatever else is in the file is no timestamp, and is replaced.
    """
    path = f"{data_directory}/{BOOT_TIMESTAMP_FILE}"
    last = (read_small_file(disk, path) or b"").strip()
    timestamp = max(wall_ms, int(last) + 1 if _TIMESTAMP.fullmatch(last) else 0)
    try:
        write_atomically(disk, path, b"%d\n" % timestamp)
    except DiskFull as full:
        # Without room a node can still vote and serve; only a clock that goes back before the next start matters.
        logger.warning("%s", full)
    return timestamp
