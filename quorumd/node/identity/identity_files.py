"""The identity and the saved state in a data directory, read and checked before a node starts."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from quorumd.errors import DiskFull, StorageError
from quorumd.ids import NO_NODE, Endpoint, ReplicaKey
from quorumd.log.atomic_file import read_small_file, write_atomically
from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.log.meta_properties import MetaProperties, load_meta_properties, partition_directory
from quorumd.log.quorum_state_file import Founder, QuorumStateFile, SavedState
from quorumd.log.remedies import REFORMAT_REMEDY
from quorumd.ports import Disk
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet

logger = logging.getLogger("quorumd.node")

BOOT_TIMESTAMP_FILE = "boot-timestamp"
_TIMESTAMP = re.compile(rb"[0-9]{1,18}")
"""At most 18 digits, so that the number plus 1 fits into an int64."""


@dataclass(slots=True)
class SavedNode:
    """The identity of a node and its quorum state, as saved in its data directory."""

    meta: MetaProperties
    state: SavedState
    known_high_watermark: int
    listener_name: str
    has_state: bool
    """Whether the directory has a quorum-state file."""

    @property
    def founders(self) -> VoterSet | None:
        """The founders that `format` or an earlier process saved; None if undecided."""
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
        """The committed cluster id. quorum-state may have it earlier: meta.properties is written after it."""
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
    """Combine the engine's state with the committed voters for quorum-state (hole 22), or with the founders while no
    voters are committed."""
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
    """Raise StorageError for a log without quorum-state: its vote is unknown and could be cast twice.

    The file is saved before anything is fetched, so no crash causes this. Only a sole voter may append before the
    file exists, and its vote has no effect on other nodes.
    """
    own = ReplicaKey(saved.meta.node_id, saved.meta.directory_id)
    is_sole_voter = voters.ids == (own.id,) and voters.includes(own)
    if not (saved.has_state or log_is_empty or is_sole_voter):
        raise StorageError(
            f"{partition_directory(data_directory)}/quorum-state is missing although the log is not empty: without "
            f"the vote in this file the node could vote twice; restore the file, or, {REFORMAT_REMEDY}"
        )


def load_saved_node(disk: Disk, data_directory: str, node_id: int, listener_name: str) -> SavedNode:
    """Read the directory of a node.

    Raises StorageError for a directory that is not formatted or belongs to another node, CorruptLog for files that
    cannot be parsed (holes 21, 39).
    """
    meta = load_meta_properties(disk, data_directory)
    if meta is None:
        raise StorageError(
            f"{data_directory} is not formatted: run `quorumd format` with this node's properties"
        )
    if meta.node_id != node_id:
        raise StorageError(
            f"{data_directory} belongs to node {meta.node_id}, but the properties are those of node {node_id}; "
            "give each node its own directory"
        )
    found = QuorumStateFile(disk, partition_directory(data_directory)).load()
    state = found or SavedState()
    if state.broker_id not in (NO_NODE, node_id):
        raise StorageError(
            f"{partition_directory(data_directory)}/quorum-state was written by node {state.broker_id}, "
            f"not by node {node_id}; a copied directory could vote twice: format a new one"
        )
    if state.cluster_id and meta.cluster_id and state.cluster_id != meta.cluster_id:
        raise StorageError(
            f"{partition_directory(data_directory)}/quorum-state belongs to cluster {state.cluster_id}, but the "
            f"directory is formatted for cluster {meta.cluster_id}; restore the right file, or format a new directory"
        )
    return SavedNode(
        meta, state, HighWatermarkCheckpoint(disk, data_directory).load(), listener_name, found is not None
    )


def next_boot_timestamp(disk: Disk, data_directory: str, wall_ms: int) -> int:
    """Save and return a boot timestamp larger than all earlier ones, even if the wall clock went back (hole 26).

    Blocks. A file without a valid timestamp is overwritten.
    """
    path = f"{data_directory}/{BOOT_TIMESTAMP_FILE}"
    last = (read_small_file(disk, path) or b"").strip()
    timestamp = max(wall_ms, int(last) + 1 if _TIMESTAMP.fullmatch(last) else 0)
    try:
        write_atomically(disk, path, b"%d\n" % timestamp)
    except DiskFull as full:
        # A node on a full disk can still vote; the next boot timestamp is too small only if the clock goes back.
        logger.warning("%s", full)
    return timestamp
