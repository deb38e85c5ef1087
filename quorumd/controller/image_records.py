"""Conversion of an image to records, the content of a snapshot (KIP-630)."""

from __future__ import annotations

from collections.abc import Iterator

from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import PartitionId, partition_record
from quorumd.controller.record_versions import encode_for_version
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.producer_ids_record import ProducerIdsRecord
from quorumd.protocol.messages.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.wire import Message


def snapshot_frames(image: ClusterImage) -> Iterator[bytes]:
    """Iterate over the frames of a snapshot of an image: the same frames in the same order for equal images.

    Features come first, since they determine the versions of the other records.
    """
    level = image.metadata_version
    for record in _typed_records(image):
        yield encode_for_version(record, level)
    for _, frame in sorted(image.opaque_records.items()):
        yield frame


def snapshot_records(image: ClusterImage) -> Iterator[Message]:
    """Iterate over the records that turn an empty image into an equal one, in the order of `snapshot_frames`."""
    yield from _typed_records(image)
    for _, frame in sorted(image.opaque_records.items()):
        yield decode_record(frame)


def _typed_records(image: ClusterImage) -> Iterator[Message]:
    """Iterate over the records that the image interprets, which come before the opaque ones."""
    for feature, level in sorted(image.features.items()):
        yield FeatureLevelRecord(feature, level)
    for _, broker in sorted(image.brokers.items()):
        yield broker_record(broker)
    for name, topic_id in sorted(image.topic_ids.items()):
        yield TopicRecord(name, topic_id)
        for number, partition in sorted(image.topics[topic_id].partitions.items()):
            yield partition_record(PartitionId(topic_id, number), partition)
    for resource, values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(*resource, name, value)
    if image.next_producer_id:
        yield ProducerIdsRecord(-1, -1, image.next_producer_id)


def broker_record(broker: Broker) -> RegisterBrokerRecord:
    """Return the record that registers the broker in its current state."""
    return RegisterBrokerRecord(
        broker.id,
        broker.is_migrating,
        broker.incarnation_id,
        broker.epoch,
        [BrokerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in broker.endpoints],
        [BrokerFeature(f.name, f.min_level, f.max_level) for f in broker.features],
        broker.rack,
        broker.is_fenced,
        broker.in_controlled_shutdown,
        list(broker.directories),
        None if broker.cordoned is None else list(broker.cordoned),
    )
