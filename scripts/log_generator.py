"""Fast generator of real KRaft logs of any size, for tests and benchmarks of the pipeline.

    generate(directory, LogShape(records=1_000_000)) -> GeneratedLog      copies of a log in directory/node-1, ...
    chunks(LogShape(...)) -> the same bytes in memory, some megabytes at a time

    python scripts/log_generator.py /tmp/log --records 100000000 --batch-records 32 --nodes 3

The same shape gives the same bytes. A log starts with brokers, topics and partitions. Then partitions change
(replicas leave and rejoin the ISR, leaders move, reassignments, unclean elections, ELR), brokers are fenced and
unfenced, and topics are created and deleted. All changes of an epoch undo each other, so every epoch reuses the bytes
of one template, except offsets, epoch, timestamps, the ids and names of its topics, and CRCs: generating a billion
records takes minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import BinaryIO

import click
import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from quorumd.ids import KafkaUuid
from quorumd.log.meta_properties import PARTITION_DIRECTORY
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.protocol.wire import Message

FIRST_TIMESTAMP_MS = 1_700_000_000_000
BATCH_MS = 5
"""The time per offset: the timestamp of a batch is the time of its base offset."""
METADATA_LEVEL = 25
CONTROLLERS = (1, 2, 3)
TRANSIENT_PARTITIONS = 6
"""The number of partitions of a topic that is created and deleted within an epoch."""

_TRANSIENT_ID = b"passing."
_TRANSIENT_NAME = b"passing-"
_EPOCH_DIGITS = 8
_CRC, _BODY, _BASE_TIMESTAMP, _MAX_TIMESTAMP = 17, 21, 27, 35


@dataclass(frozen=True, slots=True)
class LogShape:
    """The parameters of a log. It has at least `records`; the last batch is complete.

    The copies of all nodes have the same batches, in segments of different sizes.
    """

    records: int = 1_000_000
    batch_records: int = 32
    """The mean: 1, 32 and 1,000 are typical of a single writer, a busy cluster and a bulk change."""
    segment_bytes: int = 64 << 20
    """The maximum segment size of node 1; it grows by 30% of this value with each further node."""
    nodes: int = 1
    seed: int = 1
    brokers: int = 30
    topics: int = 50
    partitions: int = 20
    """Partitions per topic."""
    epoch_records: int = 100_000
    """Records per epoch. Each epoch starts with a LeaderChangeMessage."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some complete batches."""

    data: bytes
    bounds: npt.NDArray[np.int64]
    """The positions of the batches, and the end of the last one."""
    base_offsets: npt.NDArray[np.int64]
    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class GeneratedLog:
    """A generated log."""

    directories: dict[int, Path]
    """The data directories, by node; each contains the directory of the partition."""
    end_offset: int
    epoch: int
    size: int


def generate(
    directory: Path, shape: LogShape, written: Callable[[int], None] = lambda end_offset: None
) -> GeneratedLog:
    """Write the log of each node to a new directory. `written` is called with the end offset after each epoch."""
    writers = {}
    for index in range(shape.nodes):
        data_directory = directory / f"node-{index + 1}"
        segment_bytes = shape.segment_bytes + shape.segment_bytes * 3 * index // 10
        writers[index + 1] = _SegmentWriter(data_directory / PARTITION_DIRECTORY, segment_bytes)
    end_offset = epoch = size = 0
    for chunk in chunks(shape):
        for writer in writers.values():
            writer.write(chunk)
        end_offset, epoch, size = chunk.end_offset, chunk.epoch, size + len(chunk.data)
        written(end_offset)
    for writer in writers.values():
        writer.close()
    return GeneratedLog(
        {node: writer.directory.parent for node, writer in writers.items()}, end_offset, epoch, size
    )


def chunks(shape: LogShape) -> Iterator[Chunk]:
    """Yield the log in order: the epoch that creates brokers, topics and partitions, then one epoch at a time."""
    rng = Random(shape.seed)
    cluster = _Cluster(shape, rng)
    epoch = 1
    chunk = _joined(
        _leader_change(0, epoch), _batched(cluster.creation(first_offset=1), 1, epoch, shape, rng)
    )
    offset = chunk.end_offset
    yield chunk
    if offset >= shape.records:
        return
    per_epoch = max(1, min(shape.epoch_records, (shape.records - offset) // 4))
    template = _Template(_batched(cluster.changes(per_epoch), 0, 0, shape, rng))
    while offset < shape.records:
        epoch += 1
        start = _leader_change(offset, epoch)
        changes = template.stamped(offset + 1, epoch, shape.records - offset - 1)
        chunk = _joined(start, changes) if changes is not None else start
        offset = chunk.end_offset
        yield chunk


class _Cluster:
    """Brokers, topics and partitions, and the records that create and change them."""

    def __init__(self, shape: LogShape, rng: Random) -> None:
        self._shape = shape
        self._rng = rng
        self._brokers = list(range(1, shape.brokers + 1))
        self._broker_epochs: dict[int, int] = {}
        self._partitions = [
            (_uuid(3, topic), number, rng.sample(self._brokers, min(3, shape.brokers)))
            for topic in range(shape.topics)
            for number in range(shape.partitions)
        ]

    def creation(self, first_offset: int) -> Iterator[bytes]:
        """Yield features, then brokers, then each topic with its partitions."""
        yield encode_record(FeatureLevelRecord("metadata.version", METADATA_LEVEL), 0)
        yield encode_record(FeatureLevelRecord("eligible.leader.replicas.version", 1), 0)
        for offset, broker in enumerate(self._brokers, first_offset + 2):
            self._broker_epochs[broker] = offset
            yield encode_record(self._registration(broker, offset), 3)
        topic_before = None
        for topic_id, number, replicas in self._partitions:
            if topic_id != topic_before:
                topic = int.from_bytes(topic_id[8:], "big")
                yield encode_record(TopicRecord(f"topic-{topic}", topic_id), 0)
                topic_before = topic_id
            yield encode_record(self._partition(topic_id, number, replicas), 2)

    def _registration(self, broker: int, offset: int) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker,
            False,
            _uuid(1, broker),
            offset,
            [BrokerEndpoint("PLAINTEXT", f"broker-{broker}", 9092, 0)],
            [BrokerFeature("metadata.version", 7, METADATA_LEVEL)],
            f"rack-{broker % 3}",
            False,
            False,
            [_uuid(2, broker)],
        )

    def _partition(self, topic_id: KafkaUuid, number: int, replicas: list[int]) -> PartitionRecord:
        return PartitionRecord(
            number,
            topic_id,
            replicas,
            replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=[_uuid(2, broker) for broker in replicas],
        )

    def changes(self, count: int) -> Iterator[bytes]:
        """Yield about `count` records that leave everything unchanged except the epochs of partitions."""
        rng = self._rng
        idle = rng.sample(range(len(self._partitions)), len(self._partitions))
        stories: list[tuple[int | None, Iterator[tuple[Message, int]]]] = []
        made = passing = 0
        while made < count or stories:
            if made < count and len(stories) < 40:
                kind = rng.random()
                if kind < 0.02:
                    stories.append((None, self._transient_topic(passing)))
                    passing += 1
                elif kind < 0.05:
                    stories.append((None, self._broker_fenced(rng.choice(self._brokers))))
                elif kind < 0.15 or not idle:
                    stories.append((None, iter([(NoOpRecord(), 0)])))
                else:
                    index = idle.pop(rng.randrange(len(idle)))
                    stories.append((index, self._partition_history(*self._partitions[index])))
            at = rng.randrange(len(stories))
            partition, story = stories[at]
            record = next(story, None)
            if record is None:
                stories[at] = stories[-1]
                stories.pop()
                if partition is not None:
                    idle.append(partition)
                continue
            made += 1
            yield encode_record(*record)

    def _partition_history(
        self, topic_id: KafkaUuid, number: int, replicas: list[int]
    ) -> Iterator[tuple[Message, int]]:
        def change(**fields: object) -> tuple[Message, int]:
            record = PartitionChangeRecord(number, topic_id)
            for name, value in fields.items():
                setattr(record, name, value)
            return record, 2

        leader, *others = replicas
        kind = self._rng.random()
        if kind < 0.6 or len(replicas) < 2:
            yield change(isr=[leader, *others[1:]])
            yield change(isr=list(replicas))
        elif kind < 0.85:
            yield change(isr=others, leader=others[0])
            yield change(isr=[*others, leader])
            yield change(leader=leader)
        elif kind < 0.9:
            yield change(isr=[leader], eligible_leader_replicas=others[:1], last_known_elr=others[1:])
            yield change(isr=[], leader=-1, eligible_leader_replicas=[leader, *others[:1]])
            yield change(
                isr=[leader],
                leader=leader,
                leader_recovery_state=1,
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            yield change(leader_recovery_state=0, isr=list(replicas))
        else:
            spare = [broker for broker in self._brokers if broker not in replicas]
            if spare:
                yield from self._move_and_return(change, replicas, self._rng.choice(spare))

    def _move_and_return(
        self, change: Callable[..., tuple[Message, int]], replicas: list[int], target: int
    ) -> Iterator[tuple[Message, int]]:
        leaving = replicas[-1]
        moved = [*replicas[:-1], target]
        for joins, leaves, before, after in (
            (target, leaving, replicas, moved),
            (leaving, target, moved, replicas),
        ):
            during = [*before, joins]
            yield change(
                replicas=during,
                adding_replicas=[joins],
                removing_replicas=[leaves],
                directories=[_uuid(2, broker) for broker in during],
                original_replicas=before,
            )
            yield change(
                replicas=after,
                isr=after,
                adding_replicas=[],
                removing_replicas=[],
                directories=[_uuid(2, broker) for broker in after],
                original_replicas=[],
            )

    def _broker_fenced(self, broker: int) -> Iterator[tuple[Message, int]]:
        epoch = self._broker_epochs[broker]
        yield BrokerRegistrationChangeRecord(broker, epoch, fenced=1), 1
        yield BrokerRegistrationChangeRecord(broker, epoch, fenced=-1), 1

    def _transient_topic(self, number: int) -> Iterator[tuple[Message, int]]:
        topic_id = KafkaUuid(_TRANSIENT_ID + bytes(4) + number.to_bytes(4, "big"))
        yield TopicRecord(f"{_TRANSIENT_NAME.decode()}{0:0{_EPOCH_DIGITS}}-{number}", topic_id), 0
        for partition in range(TRANSIENT_PARTITIONS):
            replicas = self._rng.sample(self._brokers, min(3, len(self._brokers)))
            yield self._partition(topic_id, partition, replicas), 2
        yield RemoveTopicRecord(topic_id), 0


class _Template:
    """The batches of an epoch without its offsets, epoch, timestamps and CRCs, which `stamped` sets."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._starts = chunk.bounds[:-1]
        self._ids = _positions(chunk.data, _TRANSIENT_ID) + len(_TRANSIENT_ID)
        self._names = _positions(chunk.data, _TRANSIENT_NAME) + len(_TRANSIENT_NAME)

    def stamped(self, first_offset: int, epoch: int, records: int) -> Chunk | None:
        """Return the batches of an epoch up to the batch that completes `records`, or None without records."""
        if records <= 0:
            return None
        template = self._chunk
        ends = np.append(template.base_offsets[1:], template.end_offset)
        count = min(int(np.searchsorted(ends, records)) + 1, len(ends))
        bounds = template.bounds[: count + 1]
        starts = self._starts[:count]
        data = bytearray(template.data[: bounds[-1]])
        array = np.frombuffer(data, np.uint8)
        base_offsets = template.base_offsets[:count] + first_offset
        _stamp(array, starts, base_offsets, ">i8")
        _stamp(array, starts + 12, np.full(count, epoch), ">i4")
        times = _times(base_offsets)
        _stamp(array, starts + _BASE_TIMESTAMP, times, ">i8")
        _stamp(array, starts + _MAX_TIMESTAMP, times, ">i8")
        ids = self._ids[self._ids + 4 <= bounds[-1]]
        _stamp(array, ids, np.full(len(ids), epoch), ">i4")
        digits = np.frombuffer(f"{epoch:0{_EPOCH_DIGITS}}".encode(), np.uint8)
        names = self._names[self._names + _EPOCH_DIGITS <= bounds[-1]]
        array[names[:, None] + np.arange(_EPOCH_DIGITS)] = digits
        with memoryview(data) as view:
            stops = bounds.tolist()
            crcs = [crc32c(view[start + _BODY : stop]) for start, stop in pairwise(stops)]
        _stamp(array, starts + _CRC, np.array(crcs, np.uint32), ">u4")
        return Chunk(bytes(data), bounds, base_offsets, first_offset + int(ends[count - 1]), epoch)


def _times(base_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return FIRST_TIMESTAMP_MS + base_offsets * BATCH_MS


def _stamp(
    array: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], values: npt.ArrayLike, kind: str
) -> None:
    encoded = np.ascontiguousarray(values, kind).view(np.uint8).reshape(len(places), -1)
    array[places[:, None] + np.arange(encoded.shape[1])] = encoded


def _positions(data: bytes, mark: bytes) -> npt.NDArray[np.int64]:
    found = []
    at = data.find(mark)
    while at >= 0:
        found.append(at)
        at = data.find(mark, at + len(mark))
    return np.array(found, np.int64)


def _batched(values: Iterator[bytes], offset: int, epoch: int, shape: LogShape, rng: Random) -> Chunk:
    parts: list[bytes] = []
    offsets: list[int] = []
    held: list[bytes] = []

    def seal() -> None:
        nonlocal offset
        if held:
            parts.append(encode_batch(offset, epoch, FIRST_TIMESTAMP_MS + offset * BATCH_MS, held))
            offsets.append(offset)
            offset += len(held)
            held.clear()

    size = _batch_size(shape, rng)
    for value in values:
        held.append(value)
        if len(held) == size:
            seal()
            size = _batch_size(shape, rng)
    seal()
    return _chunk(parts, offsets, offset, epoch)


def _batch_size(shape: LogShape, rng: Random) -> int:
    half = shape.batch_records // 2
    return rng.randint(max(1, shape.batch_records - half), shape.batch_records + half) if half else 1


def _leader_change(offset: int, epoch: int) -> Chunk:
    leader = CONTROLLERS[epoch % len(CONTROLLERS)]
    granting = [leader, CONTROLLERS[(epoch + 1) % len(CONTROLLERS)]]
    message = LeaderChangeMessage(
        0, leader, [Voter(id) for id in CONTROLLERS], [Voter(id) for id in granting]
    )
    batch = encode_control_batch(
        offset, epoch, FIRST_TIMESTAMP_MS + offset * BATCH_MS, [encode_control(message)]
    )
    return _chunk([batch], [offset], offset + 1, epoch)


def _chunk(parts: list[bytes], offsets: list[int], end_offset: int, epoch: int) -> Chunk:
    bounds = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return Chunk(b"".join(parts), bounds, np.array(offsets, np.int64), end_offset, epoch)


def _joined(first: Chunk, second: Chunk) -> Chunk:
    bounds = np.concatenate([first.bounds[:-1], second.bounds + len(first.data)])
    offsets = np.concatenate([first.base_offsets, second.base_offsets])
    return replace(second, data=first.data + second.data, bounds=bounds, base_offsets=offsets)


def _uuid(kind: int, number: int) -> KafkaUuid:
    return KafkaUuid(kind.to_bytes(8, "big") + number.to_bytes(8, "big"))


class _SegmentWriter:
    """Writes segments; like a node, rolls before a batch that would make one too large."""

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._stream: BinaryIO | None = None
        self._room = 0

    def write(self, chunk: Chunk) -> None:
        first, count = 0, len(chunk.base_offsets)
        with memoryview(chunk.data) as view:
            while first < count:
                start = int(chunk.bounds[first])
                fits = int(np.searchsorted(chunk.bounds, start + self._room, side="right")) - 1
                if fits == first:
                    self._roll(int(chunk.base_offsets[first]))
                    # A batch larger than a segment gets a segment of its own.
                    self._room = max(self._segment_bytes, int(chunk.bounds[first + 1]) - start)
                    continue
                assert self._stream is not None
                self._stream.write(view[start : chunk.bounds[fits]])
                self._room -= int(chunk.bounds[fits]) - start
                first = fits

    def _roll(self, base_offset: int) -> None:
        self.close()
        self._stream = (self.directory / f"{base_offset:020d}.log").open("wb", buffering=0)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--records", default=LogShape().records, show_default=True, help="Minimum number of records.")
@click.option(
    "--batch-records",
    default=LogShape().batch_records,
    show_default=True,
    help="Mean number of records per batch.",
)
@click.option(
    "--segment-bytes", default=LogShape().segment_bytes, show_default=True, help="Segment size of node 1."
)
@click.option("--nodes", default=LogShape().nodes, show_default=True, help="Number of copies of the log.")
@click.option("--seed", default=LogShape().seed, show_default=True, help="Seed of the records.")
def main(
    directory: Path, records: int, batch_records: int, segment_bytes: int, nodes: int, seed: int
) -> None:
    """Write copies of a generated log to DIRECTORY/node-1, DIRECTORY/node-2, ..."""
    shape = LogShape(records, batch_records, segment_bytes, nodes, seed)
    made = generate(directory, shape)
    for node, data_directory in made.directories.items():
        click.echo(f"{node}={data_directory}")
    click.echo(f"{made.end_offset:,} records, {made.size:,} bytes, {made.epoch} epochs", err=True)


if __name__ == "__main__":
    sys.exit(main())
