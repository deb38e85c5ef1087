"""The first records of a cluster, which stock readers need before they publish any metadata."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from quorumd.controller.bootstrap_metadata import check_levels, feature_levels_from, feature_records
from quorumd.controller.cluster_image import METADATA_VERSION
from quorumd.controller.features import default_min_isr_records
from quorumd.controller.metadata_versions import LATEST_VERSION, default_levels
from quorumd.controller.record_versions import encode_for_version
from quorumd.controller.undo_log import UndoEntry
from quorumd.errors import CorruptLog, MalformedMessage
from quorumd.ids import OffsetAndEpoch
from quorumd.log.bootstrap_file import Bootstrap, load_bootstrap, load_bootstrap_snapshot
from quorumd.node.state.proposals import Proposals, ignore_commit
from quorumd.node.state.state_machine import StateMachine
from quorumd.node.wire.voter_records import snapshot_voters
from quorumd.ports import Disk
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import size_of_records
from quorumd.protocol.wire import Message
from quorumd.raft.voters import VoterSet

logger = logging.getLogger("quorumd.node")


class NewCluster(NamedTuple):
    """The content of a new cluster: the records for an empty log, and the voters if `format` named them."""

    records: list[Message]
    voters: VoterSet | None = None


def load_new_cluster(disk: Disk, data_directory: str, *, log_is_empty: bool) -> NewCluster:
    """Load what `format` wrote: the snapshot of offset 0 before `bootstrap.checkpoint`, as Kafka's controller does;
    without either, the features of the newest release.

    Blocks. Raises CorruptLog for a damaged file and for unsupported levels. Kafka's tools leave the snapshot of
    offset 0 in the directory permanently, so damage to it does not matter once the log has records.
    """
    legacy = load_bootstrap(disk, data_directory)
    try:
        found = load_bootstrap_snapshot(disk, data_directory)
        voters = _voters(found) if found is not None and log_is_empty else None
        records = _records(found) if found is not None and found.frames else None
    except CorruptLog as fault:
        if log_is_empty:
            raise
        logger.info("ignored the bootstrap snapshot, since the log has records: %s", fault)
        voters = records = None
    if records is None and legacy is not None:
        records = _records(legacy)
    return NewCluster(records or [*feature_records(default_levels(LATEST_VERSION.level))], voters)


def _records(bootstrap: Bootstrap) -> list[Message]:
    """Decode bootstrap records. Raises CorruptLog for unsupported feature levels."""
    records = [decode_record(frame) for frame in bootstrap.frames]
    try:
        check_levels(feature_levels_from(records))
    except ValueError as fault:
        raise CorruptLog(
            f"{bootstrap.path} cannot be used: {fault}; start the node with the version that wrote "
            "the file, or, in a cluster that has metadata already, remove the file"
        ) from None
    return records


def _voters(bootstrap: Bootstrap) -> VoterSet | None:
    """The voters in a bootstrap snapshot. Raises CorruptLog for an invalid voter set."""
    if bootstrap.voters is None:
        return None
    try:
        return snapshot_voters(OffsetAndEpoch(0, 0), bootstrap.voters).assignment.current
    except MalformedMessage as fault:
        raise CorruptLog(f"{bootstrap.path}: {fault}: restore the file") from None


def propose_bootstrap_records(
    state_machine: StateMachine, bootstrap: Sequence[Message], min_insync_replicas: int, proposals: Proposals
) -> None:
    """Propose the records that a new leader's image lacks.

    In a log without features these are the bootstrap records. With ELR enabled, they include the cluster's default of
    min.insync.replicas, which logs of earlier versions lack. A transaction that an earlier leader left open is
    aborted, so that later records are not part of it (KIP-868).
    """
    image = state_machine.image
    changes: list[UndoEntry] = []
    records: list[Message] = []

    def add(*more: Message) -> None:
        for record in more:
            image.apply(record, changes)
            records.append(record)

    if image.in_transaction:
        add(AbortTransactionRecord("another controller leads now"))
    if METADATA_VERSION not in image.features:
        add(*bootstrap)
    if image.elr_enabled:
        add(*default_min_isr_records(image, min_insync_replicas))
    if records:
        state_machine.charge(len(records))
        frames = [encode_for_version(record, image.metadata_version) for record in records]
        proposals.propose(frames, size_of_records(frames), changes, ignore_commit)
