"""The voter records in the node's log: their encoding, and the cluster id and addresses that follow from them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from quorumd.errors import StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.node.basics import QuorumParts
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.peers.discovery import Discovery
from quorumd.node.wire.voter_records import VoterRecord, encode_control_records
from quorumd.ports import Clock
from quorumd.raft.effects import ControlBatch
from quorumd.raft.voters import VoterAssignment

logger = logging.getLogger("quorumd.node")


class VoterLog:
    """Keeps the cluster id and the address book consistent with the voter records in the log.

    `load(snapshot)` replaces the image by the content of a snapshot; `on_adopted(cluster_id)` is called once the
    cluster id is committed.
    """

    def __init__(
        self,
        clock: Clock,
        quorum: QuorumParts,
        discovery: Discovery,
        lifecycle: Lifecycle,
        load: Callable[[OffsetAndEpoch], None],
        on_adopted: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._engine = quorum.engine
        self._identity = quorum.identity
        self._discovery = discovery
        self._lifecycle = lifecycle
        self._load = load
        self._on_adopted = on_adopted

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
        self._load(snapshot)
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
            assert cluster_id is not None
            logger.info("this node belongs to cluster %s", cluster_id)
            self._on_adopted(cluster_id)
