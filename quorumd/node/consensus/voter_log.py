"""The voter records in the node's log: their encoding, and the cluster id and addresses that follow from them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from quorumd.errors import StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log.meta_properties import MetaProperties, save_meta_properties
from quorumd.node.consensus.voter_records import VoterRecord, encode_control_records
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.peers.discovery import Discovery
from quorumd.node.state.state_machine import StateMachine
from quorumd.ports import Clock, Disk
from quorumd.raft.effects import ControlBatch
from quorumd.raft.engine import RaftEngine
from quorumd.raft.voters import VoterAssignment

logger = logging.getLogger("quorumd.node")


class VoterLog:
    """Keeps the cluster id and the address book consistent with the voter records in the log."""

    def __init__(
        self,
        engine: RaftEngine,
        identity: ClusterIdentity,
        discovery: Discovery,
        state_machine: StateMachine,
        clock: Clock,
        disk: Disk,
        data_directory: str,
        meta: MetaProperties,
        lifecycle: Lifecycle,
    ) -> None:
        self._engine = engine
        self._identity = identity
        self._discovery = discovery
        self._state_machine = state_machine
        self._clock = clock
        self._disk = disk
        self._data_directory = data_directory
        self._meta = meta
        self._lifecycle = lifecycle
        self.on_adopted: Callable[[], None] = lambda: None
        """Called once the cluster id is committed."""

    def encode_control(self, batch: ControlBatch, base_offset: int, epoch: int) -> bytes:
        """Encode a control batch that the leader is about to append at `base_offset`."""
        cluster_id = self._identity.id_for_new_record()
        for offset, record in enumerate(batch.records, base_offset):
            if isinstance(record, VoterAssignment):
                self._identity.appended(offset, cluster_id)
                self._lifecycle.call_soon(self.update_addresses)
        return encode_control_records(batch, base_offset, epoch, self._clock.wall_ms(), cluster_id)

    def truncated(self, end_offset: int) -> None:
        """Forget voter records at or above `end_offset`, which were truncated."""
        self._identity.truncated(end_offset)
        self._discovery.log_truncated(end_offset)
        self._lifecycle.call_soon(self.update_addresses)

    def restarted(self, snapshot: OffsetAndEpoch, voters: VoterRecord | None) -> None:
        """Load a fetched snapshot that replaced the log; `voters` is the record in the snapshot."""
        self._identity.truncated(0)
        self._discovery.log_truncated(0)
        self._state_machine.load(snapshot, self._disk)
        if voters is not None:
            self.fetched([voters])
        logger.info("the log was replaced by the snapshot that ends at offset %d", snapshot.offset)

    def fetched(self, records: Sequence[VoterRecord]) -> None:
        """Handle voter records that were fetched from the leader and appended."""
        for record in records:
            self._identity.appended(record.offset, record.cluster_id)
        self.update_addresses()
        self.committed(self._engine.high_watermark)

    def update_addresses(self) -> None:
        """Add the addresses in the latest voter record to the address book."""
        self._discovery.learn_voters(self._engine.voters.current.voters, self._engine.voters_offset)

    def committed(self, high_watermark: int) -> None:
        """Adopt the cluster id of the first committed voter record, or stop the node if a record has another id."""
        adopted, contradiction = self._identity.committed(high_watermark)
        cluster_id = self._identity.cluster_id
        if contradiction is not None:
            self._lifecycle.fail(
                StorageError(
                    f"the log belongs to cluster {contradiction}, this directory to cluster {cluster_id}; check "
                    "bootstrap.servers and quorum.voters, or format another directory, which has no vote at first"
                )
            )
        elif adopted:
            meta = self._meta = self._meta._replace(cluster_id=cluster_id)
            self._disk.submit(
                lambda: save_meta_properties(self._disk, self._data_directory, meta),
                self._lifecycle.file_written,
            )
            logger.info("this node belongs to cluster %s", cluster_id)
            self.on_adopted()
