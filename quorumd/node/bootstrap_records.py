"""The records that a cluster begins with: what a stock reader needs before it publishes anything."""

from __future__ import annotations

from quorumd.controller.assignment import Change
from quorumd.controller.cluster_image import ELR_VERSION, METADATA_VERSION, ClusterImage
from quorumd.node.proposals import Proposals
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.wire import Message

METADATA_VERSION_LEVEL = 25
"""Works with every 4.x broker."""
ELR_LEVEL = 1
"""Replicas that left the ISR may stay eligible to lead (KIP-966): as in new clusters of Kafka 4.1 and later."""


def propose_bootstrap_records(image: ClusterImage, proposals: Proposals) -> None:
    """Propose what the image of a new leader lacks: the features of a new cluster, in a log without any.

    A transaction that an earlier leader left open is aborted: what follows is no part of it (KIP-868).
    """
    records: list[Message] = []
    if image.in_transaction:
        records.append(AbortTransactionRecord("another controller leads now"))
    if METADATA_VERSION not in image.features:
        records += (
            FeatureLevelRecord(METADATA_VERSION, METADATA_VERSION_LEVEL),
            FeatureLevelRecord(ELR_VERSION, ELR_LEVEL),
        )
    if records:
        changes: list[Change] = []
        for record in records:
            image.apply(record, changes)
        proposals.propose([encode_record(record, 0) for record in records], changes, lambda committed: None)
