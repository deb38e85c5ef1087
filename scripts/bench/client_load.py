"""A producer or consumer of the broker benchmark in a separate process: librdkafka through confluent-kafka.

    python client_load.py '{"bootstrap": "127.0.0.1:9092", "topic": "t", "action": "produce", ...}'

It prints one JSON object, and imports nothing of quorumd: both systems have the same client.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

CHUNK = 1000
"""Records per call of the client."""
TIMEOUT_S = 120.0
QUEUED_MESSAGES, QUEUED_KIB = 200_000, 128 * 1024
QUEUE_BACKOFF_MS = 10
WARM_UP_S = 0.5
"""Reading without measuring: until then the client connects, and fetches from each broker for the first time."""
FULL_BATCH_LINGER_MS = 1000
END_WAIT_MS = 5
"""A client that has read a partition to its end reads it again after this time."""


def produce(job: dict[str, Any]) -> dict[str, Any]:
    """Produce for some seconds as fast as the brokers accept records. The time includes the final flush."""
    return _produce(job, lambda chunks, elapsed_s: elapsed_s < job["seconds"])


def fill(job: dict[str, Any]) -> dict[str, Any]:
    """Produce a number of records in full batches, so that the logs of different brokers have the same batches."""
    full_batches = {**job, "linger_ms": FULL_BATCH_LINGER_MS}
    return _produce(full_batches, lambda chunks, elapsed_s: chunks * CHUNK < job["records"])


def _produce(job: dict[str, Any], goes_on: Callable[[int, float], bool]) -> dict[str, Any]:
    """Produce equally many records to each partition while `goes_on(chunks, elapsed_s)`.

    Partition 0 has one more record, the first, which is not counted.
    """
    producer = Producer(_producer_settings(job))
    errors: list[str] = []
    acknowledged = 0

    def delivered(error: object, message: Message) -> None:
        nonlocal acknowledged
        if error is not None:
            errors.append(str(error))
        acknowledged += 1

    value, partitions = b"v" * job["record_bytes"], job["partitions"]
    producer.produce(job["topic"], value, partition=0, on_delivery=delivered)
    producer.flush(TIMEOUT_S)
    chunks = [[{"value": value}] * CHUNK for _ in range(partitions)]
    queued = 0
    began = time.perf_counter()
    while goes_on(queued, time.perf_counter() - began) or queued % partitions:
        number = queued % partitions
        if len(producer) < QUEUED_MESSAGES // 2:
            producer.produce_batch(job["topic"], chunks[number], partition=number)
            queued += 1
            producer.poll(0)
        else:
            producer.poll(0.002)
    remaining = producer.flush(TIMEOUT_S)
    seconds = time.perf_counter() - began
    if remaining or errors:
        return {"error": f"{remaining} records not acknowledged, {errors[:1]}"}
    return {"bytes": queued * CHUNK * job["record_bytes"], "records": queued * CHUNK, "seconds": seconds}


def pace(job: dict[str, Any]) -> dict[str, Any]:
    """Produce at a fixed rate and measure each record's time to its acknowledgement."""
    producer = Producer(_producer_settings(job))
    value, partitions = b"v" * job["record_bytes"], job["partitions"]
    samples: list[float] = []
    producer.produce(job["topic"], value, partition=0)
    producer.flush(TIMEOUT_S)
    interval = 1.0 / job["rate"]
    began = time.perf_counter()
    number = 0
    while (now := time.perf_counter() - began) < job["seconds"]:
        if now < number * interval:
            producer.poll(min(0.001, number * interval - now))
            continue
        sent = time.perf_counter()

        def delivered(error: object, message: Message, sent: float = sent) -> None:
            samples.append((time.perf_counter() - sent) * 1000)

        producer.produce(job["topic"], value, partition=number % partitions, on_delivery=delivered)
        number += 1
    producer.flush(TIMEOUT_S)
    samples.sort()
    return {"p50_ms": samples[len(samples) // 2], "p99_ms": samples[int(len(samples) * 0.99)]}


def _producer_settings(job: dict[str, Any]) -> dict[str, Any]:
    return {
        "bootstrap.servers": job["bootstrap"],
        "acks": job["acks"],
        "linger.ms": job["linger_ms"],
        "batch.size": job["batch_bytes"],
        "batch.num.messages": job["batch_records"],
        "queue.buffering.max.messages": QUEUED_MESSAGES,
        "queue.buffering.max.kbytes": QUEUED_KIB,
        "enable.idempotence": False,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 50,
        # A broker that has just started on a busy machine may take longer than the default to create a topic.
        "topic.metadata.propagation.max.ms": int(TIMEOUT_S * 1000),
    }


def consume(job: dict[str, Any]) -> dict[str, Any]:
    """Read the last records of a topic, equally many of each partition, again and again for some seconds.

    `bytes` are those received in these seconds, which begin after WARM_UP_S; `all_bytes` are those of the whole run.
    """
    settings = {
        "bootstrap.servers": job["bootstrap"],
        "group.id": "bench",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": END_WAIT_MS,
        "queued.max.messages.kbytes": QUEUED_KIB,
        # By default the client does not fetch for a second once 100,000 records are queued, so that it would be idle
        # most of the time, the more the faster the brokers are.
        "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS,
    }
    consumer = Consumer(settings)
    per_partition = job["records"] // job["partitions"]
    starts = [
        TopicPartition(job["topic"], number, _end_offset(consumer, job, number) - per_partition)
        for number in range(job["partitions"])
    ]
    consumer.assign(starts)
    warm_up = read_repeatedly(consumer, starts, TIMEOUT_S, at_most=1)
    if not warm_up:
        return {"error": f"no records within {TIMEOUT_S:.0f} s"}
    warm_up += read_repeatedly(consumer, starts, WARM_UP_S)
    began = time.perf_counter()
    records = read_repeatedly(consumer, starts, job["seconds"])
    seconds = time.perf_counter() - began
    consumer.close()
    size = job["record_bytes"]
    return {"bytes": records * size, "all_bytes": (warm_up + records) * size, "seconds": seconds}


def read_repeatedly(
    consumer: Consumer, starts: list[TopicPartition], seconds: float, at_most: float = math.inf
) -> int:
    """Read each partition from its start to its end, and again, for some seconds; return the number of records.

    Partitions are repeated independently of each other. Ends with the call of the client that reaches `at_most`.
    """
    records, deadline = 0, time.perf_counter() + seconds
    while records < at_most and time.perf_counter() < deadline:
        found = consumer.consume(CHUNK, 0.1)
        failed = [(message, error) for message in found if (error := message.error()) is not None]
        records += len(found) - len(failed)
        for message, error in failed:
            if error.code() == KafkaError._PARTITION_EOF:
                consumer.seek(starts[message.partition()])
    return records


def _end_offset(consumer: Consumer, job: dict[str, Any], number: int) -> int:
    _, end_offset = consumer.get_watermark_offsets(TopicPartition(job["topic"], number), TIMEOUT_S)
    return int(end_offset)


ACTIONS = {"produce": produce, "fill": fill, "consume": consume, "pace": pace}

if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(ACTIONS[given["action"]](given)))
