"""An image as the records that make it: what a snapshot holds (KIP-630)."""

from __future__ import annotations

from collections.abc import Iterator

from quorumd.controller.cluster_image import ClusterImage
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord


def records_of(image: ClusterImage) -> Iterator[FeatureLevelRecord | ConfigRecord]:
    """The records that make an equal image of an empty one, the same in the same order for equal images.

    Features come first: they say in which versions a reader finds the rest.
    """
    for feature, level in sorted(image.features.items()):
        yield FeatureLevelRecord(feature, level)
    for resource, values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(*resource, name, value)
