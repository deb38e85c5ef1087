"""Conversion of indexed partitions to topic names and partition numbers, as requests name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid


def by_topic(
    image: ClusterImage, partitions: Iterable[PartitionId], most: int
) -> Iterator[dict[str, list[int]] | None]:
    """Yield these partitions, sorted, in chunks of at most `most`."""
    numbers: dict[KafkaUuid, list[int]] = {}
    for topic_id, number in partitions:
        if topic_id in numbers:
            numbers[topic_id].append(number)
        else:
            numbers[topic_id] = [number]
    named = sorted((image.topics[topic_id].name, those) for topic_id, those in numbers.items())
    found: dict[str, list[int]] = {}
    left = most
    for name, those in named:
        those.sort()
        begin = 0
        while begin < len(those):
            taken = those[begin : begin + left]
            found[name] = taken
            begin += len(taken)
            left -= len(taken)
            if not left:
                yield found
                found, left = {}, most
    if found:
        yield found
