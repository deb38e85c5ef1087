"""The records that a cluster begins with: what a stock reader needs before it publishes anything."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.controller.assignment import Change
from quorumd.controller.bootstrap_metadata import check_levels, feature_records, levels_in
from quorumd.controller.cluster_image import METADATA_VERSION
from quorumd.controller.features import default_min_isr
from quorumd.controller.metadata_versions import NEWEST, default_levels
from quorumd.controller.record_versions import encode_at
from quorumd.errors import CorruptLog
from quorumd.log.bootstrap_file import load_bootstrap
from quorumd.log.meta_properties import BOOTSTRAP_FILE
from quorumd.node.proposals import Proposals
from quorumd.node.state_machine import StateMachine
from quorumd.ports import Disk
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.wire import Message


def load_bootstrap_records(disk: Disk, data_folder: str) -> list[Message]:
    """What `format` decided; in a folder without that, the features of the newest release.

    Blocks. Raises CorruptLog for a file that is damaged, or asks for what is not supported.
    """
    frames = load_bootstrap(disk, data_folder)
    if frames is None:
        return [*feature_records(default_levels(NEWEST.level))]
    records = [decode_record(frame) for frame in frames]
    try:
        check_levels(levels_in(records))
    except ValueError as fault:
        raise CorruptLog(
            f"{data_folder}/{BOOTSTRAP_FILE} cannot be used: {fault}; start it with the version that wrote it, or, "
            "in a cluster that has metadata already, remove the file"
        ) from None
    return records


def propose_bootstrap_records(
    state_machine: StateMachine, bootstrap: Sequence[Message], min_insync_replicas: int, proposals: Proposals
) -> None:
    """Propose what the image of a new leader lacks: in a log without features what a new cluster begins with; with an
    ELR the cluster's default of min.insync.replicas, which logs of earlier versions do not have.

    A transaction that an earlier leader left open is aborted: what follows is no part of it (KIP-868).
    """
    changes: list[Change] = []
    records: list[Message] = []

    def add(*more: Message) -> None:
        for record in more:
            state_machine.apply(record, changes)
            records.append(record)

    image = state_machine.image
    if image.in_transaction:
        add(AbortTransactionRecord("another controller leads now"))
    if METADATA_VERSION not in image.features:
        add(*bootstrap)
    if image.elr_enabled:
        add(*default_min_isr(image, min_insync_replicas))
    if records:
        frames = [encode_at(record, image.metadata_version) for record in records]
        proposals.propose(frames, changes, lambda committed: None)
