"""Fills a log with partitions, builds its snapshot, or measures changes of partitions; started by `partitions`.

    python partition_image.py '{"do": "fill", "directory": "...", "number": TOPICS}'
    python partition_image.py '{"do": "build", "directory": "...", "number": END_OFFSET}'
    python partition_image.py '{"do": "measure", "directory": "...", "number": TOPICS}'

The directory is the data directory of a stopped node. It prints one JSON object, and imports only quorumd, so that
any package can be measured.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from quorumd.controller.alter_partition import plan_alter_partition
from quorumd.controller.broker_lifecycle import fence
from quorumd.controller.cluster_image import ELR_VERSION, METADATA_VERSION, ClusterImage
from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.controller.partition import PartitionId
from quorumd.controller.record_versions import record_version
from quorumd.controller.undo_log import UndoEntry
from quorumd.ids import KafkaUuid
from quorumd.log import LogSettings
from quorumd.log.meta_properties import partition_directory
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.snapshots.builder import build_snapshot
from quorumd.node.state.snapshot_loader import find_start_snapshot, load_image
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message
from quorumd.runtime.daemon import GC_THRESHOLDS
from quorumd.runtime.disk import OsDisk

BROKERS = 50
REPLICAS = 3
PARTITIONS = 100
"""Partitions per topic."""
FENCED_BROKER = 1
LED_BY_FENCED = 0.0305
"""The fraction of partitions that the fenced broker leads: a little more than 30,000 of a million."""
SMALL_TOPICS = 100
"""Topics with 10,000 partitions: a change among a million partitions is compared with a change among these."""
CHANGES = 4_000
"""Changes per round."""
ROUNDS = 7
METADATA_LEVEL = 25
BATCH_RECORDS = 1_000
PARTITION_VERSION = 3
"""Version of AlterPartition."""


def fill(directory: str, topics: int) -> dict[str, Any]:
    """Append brokers, topics and partitions to the log."""
    disk = OsDisk(lambda callback: callback())
    log, _ = SegmentedLog.open(disk, partition_directory(directory), LogSettings())
    epoch, records = log.last_epoch, 0
    batch: list[bytes] = []
    for record in records_of_brokers():
        batch.append(encode_record(record, record_version(record, METADATA_LEVEL)))
    for record in records_of_topics(topics):
        batch.append(encode_record(record, record_version(record, METADATA_LEVEL)))
        if len(batch) == BATCH_RECORDS:
            records += _append(log, epoch, batch)
            batch = []
    records += _append(log, epoch, batch)
    log.begin_flush()()
    end_offset = log.end_offset
    log.close()
    return {"records": records, "end_offset": end_offset}


def _append(log: SegmentedLog, epoch: int, values: list[bytes]) -> int:
    base_offset = log.end_offset
    if values:
        log.append(encode_batch(base_offset, epoch, 1_000, values), base_offset + len(values))
    return len(values)


def records_of_brokers() -> Iterator[Message]:
    for broker_id in range(1, BROKERS + 1):
        yield RegisterBrokerRecord(
            broker_id,
            False,
            _uuid(1, broker_id),
            broker_id,
            [BrokerEndpoint("PLAINTEXT", f"broker-{broker_id}", 9092, 0)],
            [BrokerFeature(METADATA_VERSION, 7, 25), BrokerFeature(ELR_VERSION, 0, 1)],
            f"rack-{broker_id % 3}",
            False,
            False,
            [_uuid(2, broker_id)],
        )


def records_of_topics(count: int) -> Iterator[Message]:
    """Yield topics whose partitions have random replicas, all in sync; FENCED_BROKER leads more than the others."""
    lots = Random(1)
    others = [broker_id for broker_id in range(1, BROKERS + 1) if broker_id != FENCED_BROKER]
    directories = {broker_id: _uuid(2, broker_id) for broker_id in range(1, BROKERS + 1)}
    for number in range(count):
        topic_id = _uuid(3, number)
        yield TopicRecord(f"topic-{number}", topic_id)
        for index in range(PARTITIONS):
            if lots.random() < LED_BY_FENCED:
                replicas = [FENCED_BROKER, *lots.sample(others, REPLICAS - 1)]
            else:
                leader = lots.choice(others)
                rest = [broker_id for broker_id in range(1, BROKERS + 1) if broker_id != leader]
                replicas = [leader, *lots.sample(rest, REPLICAS - 1)]
            yield PartitionRecord(
                index,
                topic_id,
                replicas,
                list(replicas),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[directories[broker_id] for broker_id in replicas],
            )


def build(directory: str, end_offset: int) -> dict[str, Any]:
    """Build a snapshot from the log, without an earlier snapshot."""
    gc.disable()
    cpu_began, began = time.process_time(), time.perf_counter()
    built = build_snapshot(OsDisk(lambda callback: callback()), directory, end_offset, "bench")
    if built is None or not built.is_new:
        raise SystemExit(f"no snapshot was built in {directory}: {built}")
    return {
        "records": built.records,
        "size": built.size,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure(directory: str, topics: int) -> dict[str, Any]:
    """Measure, on a log with a snapshot, loading, one change among few and among all partitions, and fencing."""
    # Like the daemon: the garbage collector runs rarely, and skips objects from before the start of service.
    gc.set_threshold(*GC_THRESHOLDS)
    disk = OsDisk(lambda callback: callback())
    log, _ = SegmentedLog.open(disk, partition_directory(directory), LogSettings())
    before_mib = _resident_mib()
    cpu_began, began = time.process_time(), time.perf_counter()
    snapshot = find_start_snapshot(log).snapshot
    assert snapshot is not None
    image = load_image(disk, log.snapshots.path(snapshot), snapshot)
    load_seconds, load_cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    log.close()
    gc.freeze()
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    if len(image.topics) != topics or partitions != topics * PARTITIONS:
        raise SystemExit(
            f"the snapshot in {directory} has {len(image.topics)} topics, {partitions} partitions"
        )
    image_mib = _resident_mib() - before_mib
    few, many = _controller(small_image()), _controller(image)
    rounds: dict[str, list[float]] = {"few": [], "many": []}
    # In turns, so that other load affects both.
    for turn in range(ROUNDS):
        rounds["few"].append(time_changes(few, turn))
        rounds["many"].append(time_changes(many, turn))
    return {
        "partitions": partitions,
        "image_mib": image_mib,
        "load_seconds": load_seconds,
        "load_cpu_seconds": load_cpu_seconds,
        "change_us_few": statistics.median(rounds["few"]),
        "change_us_many": statistics.median(rounds["many"]),
        "change_ratio": statistics.median(
            many / few for few, many in zip(rounds["few"], rounds["many"], strict=True)
        ),
        **time_fence(many),
    }


def small_image() -> ClusterImage:
    image = ClusterImage()
    for record in (FeatureLevelRecord(METADATA_VERSION, METADATA_LEVEL), FeatureLevelRecord(ELR_VERSION, 1)):
        image.apply(record, [])
    for records in (records_of_brokers(), records_of_topics(SMALL_TOPICS)):
        for record in records:
            image.apply(record, [])
    return image


def time_changes(controller: Controller, turn: int) -> float:
    """Return the microseconds of CPU time per change.

    A change plans an AlterPartition request for a random partition, and encodes and applies its record. Changes
    alternately remove a replica from the ISR and add it again.
    """
    image = controller.image
    lots = Random(turn)
    topics = list(image.topics)
    chosen = [
        PartitionId(topics[lots.randrange(len(topics))], lots.randrange(PARTITIONS))
        for _ in range(CHANGES // 2)
    ]
    seconds = 0.0
    for shrinks in (True, False):
        requests = [_request(image, where, shrinks) for where in dict.fromkeys(chosen)]
        began = time.process_time()
        for request in requests:
            plan = plan_alter_partition(controller, request, PARTITION_VERSION)
            changes: list[UndoEntry] = []
            for record in plan.records:
                encode_record(record, record_version(record, METADATA_LEVEL))
                image.apply(record, changes)
        seconds += time.process_time() - began
        if any(_sizes(image, where) != REPLICAS - shrinks for where in chosen):
            raise SystemExit("a change was not applied")
    return seconds / (2 * len(dict.fromkeys(chosen))) * 1e6


def _request(image: ClusterImage, where: PartitionId, shrinks: bool) -> AlterPartitionRequest:
    partition = image.topics[where.topic_id].partitions[where.number]
    members = partition.isr[:-1] if shrinks else partition.replicas
    data = PartitionData(
        where.number,
        partition.leader_epoch,
        [],
        [BrokerState(broker_id, image.brokers[broker_id].epoch) for broker_id in members],
        0,
        partition.partition_epoch,
    )
    topic = TopicData("", where.topic_id, [data])
    return AlterPartitionRequest(partition.leader, image.brokers[partition.leader].epoch, [topic])


def _sizes(image: ClusterImage, where: PartitionId) -> int:
    return len(image.topics[where.topic_id].partitions[where.number].isr)


def time_fence(controller: Controller) -> dict[str, Any]:
    """Return the seconds of each step of fencing a broker, without disk writes."""
    image = controller.image
    led = image.index.leader_count(FENCED_BROKER)
    times = [time.perf_counter()]
    records = fence(controller, image.brokers[FENCED_BROKER])
    times.append(time.perf_counter())
    values = [encode_record(record, record_version(record, METADATA_LEVEL)) for record in records]
    times.append(time.perf_counter())
    changes: list[UndoEntry] = []
    for record in records:
        image.apply(record, changes)
    times.append(time.perf_counter())
    batch = encode_batch(0, 1, 0, values)
    times.append(time.perf_counter())
    if image.index.leader_count(FENCED_BROKER):
        raise SystemExit("a fenced broker leads")
    parts = [after - before for before, after in pairwise(times)]
    return {
        "fence_led": led,
        "fence_records": len(records),
        "fence_bytes": len(batch),
        "fence_parts": dict(zip(("plan", "encode", "apply", "batch"), parts, strict=True)),
    }


def _controller(image: ClusterImage) -> Controller:
    controller = Controller(
        ControllerSettings(), lambda: "bench", lambda: 0.0, lambda: 1 << 40, lambda: _uuid(9, 9)
    )
    controller.image = image
    return controller


def _uuid(kind: int, number: int) -> KafkaUuid:
    return KafkaUuid(kind.to_bytes(8, "big") + number.to_bytes(8, "big"))


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


DO: dict[str, Callable[[str, int], dict[str, Any]]] = {"fill": fill, "build": build, "measure": measure}

if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    print(json.dumps(DO[job["do"]](job["directory"], job["number"])))
