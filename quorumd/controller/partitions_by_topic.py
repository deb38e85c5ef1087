"""Conversion of indexed partitions to topic names and partition numbers, as requests name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid


def by_topic(
    image: ClusterImage, partitions: Iterable[PartitionId], chunk_size: int
) -> Iterator[dict[str, list[int]] | None]:
    """Iterate over chunks of at most `chunk_size` of these partitions, as sorted numbers by topic name."""
    numbers: dict[KafkaUuid, list[int]] = {}
    for topic_id, number in partitions:
        if topic_id in numbers:
            numbers[topic_id].append(number)
        else:
            numbers[topic_id] = [number]
    named = sorted((image.topics[topic_id].name, unsorted) for topic_id, unsorted in numbers.items())
    chunk: dict[str, list[int]] = {}
    left = chunk_size
    for name, topic_numbers in named:
        topic_numbers.sort()
        begin = 0
        while begin < len(topic_numbers):
            taken = topic_numbers[begin : begin + left]
            chunk[name] = taken
            begin += len(taken)
            left -= len(taken)
            if not left:
                yield chunk
                chunk, left = {}, chunk_size
    if chunk:
        yield chunk
