"""A producer or consumer of the broker benchmark in a separate process: librdkafka through confluent-kafka.

    python client_load.py '{"bootstrap": "127.0.0.1:9092", "topic": "t", "action": "produce", ...}'

It prints one JSON object, and imports nothing of quorumd: both systems have the same client.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

CHUNK = 1000
"""Records per call of the client."""
TIMEOUT_S = 120.0
QUEUED_MESSAGES, QUEUED_KIB = 200_000, 128 * 1024
QUEUE_BACKOFF_MS = 10


def produce(job: dict[str, Any]) -> dict[str, Any]:
    """Produce for some seconds as fast as the brokers accept records; the time includes the final flush."""
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
    while time.perf_counter() - began < job["seconds"]:
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
    """Read some records of a topic from its beginning, for some seconds at most. The time begins with the first."""
    settings = {
        "bootstrap.servers": job["bootstrap"],
        "group.id": "bench",
        "enable.auto.commit": False,
        "queued.max.messages.kbytes": QUEUED_KIB,
        # By default the client does not fetch for a second once 100,000 records are queued, so that it would be idle
        # most of the time, the more the faster the brokers are.
        "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(job["topic"], number, 0) for number in range(job["partitions"])])
    records = 0
    began = time.perf_counter()
    while records < job["records"] and time.perf_counter() - began < job["seconds"]:
        found = [message for message in consumer.consume(CHUNK, 0.1) if message.error() is None]
        if not records:
            began = time.perf_counter()
        records += len(found)
    seconds = time.perf_counter() - began
    consumer.close()
    return {"bytes": records * job["record_bytes"], "records": records, "seconds": seconds}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps({"produce": produce, "pace": pace, "consume": consume}[given["action"]](given)))
