"""Logs in which partitions, topics and brokers have a rich life."""

from __future__ import annotations

from random import Random
from typing import Any

from quorumd.controller.cluster_image import ClusterImage
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.naive_history import Logged
from tests.support.record_lots import NAMES, Lots

RECORDS = 400


class Happenings(Lots):
    """As others, but a topic has an id of its own, and min.insync.replicas changes."""

    def __init__(self, seed: int, ahead: ClusterImage) -> None:
        super().__init__(seed, ahead)
        self._kinds[self._min_isr] = 2
        self._topics = 0

    def _topic(self) -> Any:
        record = super()._topic()
        if record is None:
            return None
        self._topics += 1
        return TopicRecord(record.name, KafkaUuid(bytes(8) + self._topics.to_bytes(8, "big")))

    def _min_isr(self) -> Any:
        resource = self._lots.choice([(2, self._lots.choice(NAMES)), (4, ""), (4, "1"), (32, "a")])
        value = self._lots.choice([None, "1", "2", "3", "-1", "none"])
        return ConfigRecord(*resource, "min.insync.replicas", value)


def history(seed: int, records: int = RECORDS) -> tuple[list[Logged], ClusterImage]:
    """A log, and the image at its end."""
    image, lots, log = ClusterImage(), Random(seed), []
    happenings = Happenings(seed, image)
    offset = lots.randint(0, 5)
    while len(log) < records:
        message = happenings.record()
        if message is not None:
            image.apply(message, [])
            log.append(Logged(offset, offset // 50, offset * 1000, message))
            offset += 1
    return log, image
