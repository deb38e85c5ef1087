"""The records that a cluster begins with: what a stock reader needs before it publishes anything."""

from __future__ import annotations

from quorumd.controller.cluster_image import METADATA_VERSION, ClusterImage
from quorumd.node.proposals import Proposals
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.metadata_record import encode_record

METADATA_VERSION_LEVEL = 25
"""Works with every 4.x broker."""


def propose_bootstrap_records(image: ClusterImage, proposals: Proposals) -> None:
    """Propose what the image of a new leader lacks: the metadata version, in a log without one."""
    if METADATA_VERSION not in image.features:
        record = FeatureLevelRecord(METADATA_VERSION, METADATA_VERSION_LEVEL)
        change = image.apply(record)
        assert change is not None
        proposals.propose([encode_record(record, 0)], [change], lambda committed: None)
