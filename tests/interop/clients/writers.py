"""Producers that write until an event is set; each runs in its own thread."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import aiokafka
import aiokafka.errors
from confluent_kafka import KafkaException, Message, Producer
from kafka import KafkaProducer

from tests.interop.clients.written import PATIENCE_S, Place, Written

RECORDS = 20
"""Number of records per burst or transaction."""
PAUSE_S = 0.05
PADDING = b"." * 100
ABORTED_ONE_IN = 4
SESSION_MS = 10_000
"""The transaction timeout, after which a transaction of a failed producer is aborted."""


class Mode(StrEnum):
    PLAIN = "plain"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


@dataclass(frozen=True, slots=True)
class Job:
    """The settings and state of a writer."""

    bootstrap: str
    topic: str
    codec: str
    mode: Mode
    over: threading.Event
    written: Written

    @property
    def id(self) -> str | None:
        return self.written.name if self.mode is Mode.TRANSACTIONAL else None

    def burst(self) -> list[bytes]:
        """Pause, and return the next records."""
        self.over.wait(PAUSE_S)
        return self.written.values(RECORDS)

    def failed(self, error: object) -> None:
        self.written.errors[str(error)[:120]] += 1


# librdkafka


def by_librdkafka(job: Job) -> None:
    """Write with confluent-kafka."""
    settings: dict[str, Any] = {
        "bootstrap.servers": job.bootstrap,
        "compression.type": job.codec,
        "acks": "all",
        "linger.ms": 5,
        "message.timeout.ms": int(PATIENCE_S * 1000),
        "log_level": 0,
    }
    if job.mode is Mode.TRANSACTIONAL:
        settings |= {"transactional.id": job.id, "transaction.timeout.ms": SESSION_MS}
        del settings["message.timeout.ms"]
        while not job.over.is_set():
            with suppress(KafkaException):
                _librdkafka_transactions(job, Producer(settings))
        return
    producer = Producer(settings | {"enable.idempotence": job.mode is Mode.IDEMPOTENT})
    while not job.over.is_set():
        for value in job.burst():
            producer.produce(
                job.topic, value, headers={"padding": PADDING}, on_delivery=partial(_delivered, job)
            )
        producer.poll(0)
    producer.flush(PATIENCE_S)


def _delivered(job: Job, error: object, message: Message) -> None:
    value, partition, offset = message.value(), message.partition(), message.offset()
    if error is not None:
        job.failed(error)
        return
    assert isinstance(value, bytes)
    assert partition is not None
    assert offset is not None
    job.written.acknowledged[value] = Place(partition, offset)


def _librdkafka_transactions(job: Job, producer: Producer) -> None:
    """Write transactions until the job is over. Raises KafkaException after an error that requires a new producer."""
    producer.init_transactions(PATIENCE_S)
    while not job.over.is_set():
        producer.begin_transaction()
        values = job.burst()
        places: dict[bytes, Place | None] = {}

        def on_delivery(error: object, message: Message, places: dict[bytes, Place | None] = places) -> None:
            value, partition, offset = message.value(), message.partition(), message.offset()
            if error is None and isinstance(value, bytes) and partition is not None and offset is not None:
                places[value] = Place(partition, offset)

        for value in values:
            producer.produce(job.topic, value, headers={"padding": PADDING}, on_delivery=on_delivery)
        is_aborted = int(values[0].rpartition(b":")[2]) // RECORDS % ABORTED_ONE_IN == 0
        try:
            producer.flush(PATIENCE_S)
            if is_aborted:
                job.written.aborted.update(values)
                producer.abort_transaction(PATIENCE_S)
                continue
            producer.commit_transaction(PATIENCE_S)
        except KafkaException as failure:
            error = failure.args[0]
            job.failed(error)
            if not is_aborted:
                job.written.unknown.append(set(values))
            if not error.txn_requires_abort():
                raise
            producer.abort_transaction(PATIENCE_S)
            continue
        job.written.acknowledged |= places


# kafka-python


def by_kafka_python(job: Job) -> None:
    """Write with kafka-python."""
    settings: dict[str, Any] = {
        "bootstrap_servers": job.bootstrap.split(","),
        "compression_type": None if job.codec == "none" else job.codec,
        "acks": "all",
        "linger_ms": 5,
        "delivery_timeout_ms": int(PATIENCE_S * 1000),
        "enable_idempotence": job.mode is not Mode.PLAIN,
    }
    with KafkaProducer(**settings) as producer:
        while not job.over.is_set():
            for value in job.burst():
                future = producer.send(job.topic, value, headers=[("padding", PADDING)])
                future.add_callback(partial(_recorded, job, value))
                future.add_errback(job.failed)
        producer.flush(PATIENCE_S)


def _recorded(job: Job, value: bytes, metadata: Any) -> None:
    job.written.acknowledged[value] = Place(metadata.partition, metadata.offset)


# aiokafka


def by_aiokafka(job: Job) -> None:
    """Write with aiokafka."""
    asyncio.run(_aiokafka(job))


async def _aiokafka(job: Job) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": job.bootstrap,
        "compression_type": None if job.codec == "none" else job.codec,
        "acks": "all",
        "linger_ms": 5,
        "request_timeout_ms": int(PATIENCE_S * 1000),
        "enable_idempotence": job.mode is not Mode.PLAIN,
    }
    if job.mode is Mode.TRANSACTIONAL:
        settings |= {"transactional_id": job.id, "transaction_timeout_ms": SESSION_MS}
    while not job.over.is_set():
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
            if job.mode is Mode.TRANSACTIONAL:
                await _aiokafka_transactions(job, producer)
            else:
                await _aiokafka_bursts(job, producer)
        except aiokafka.errors.KafkaError as error:
            job.failed(repr(error))
        finally:
            with suppress(aiokafka.errors.KafkaError):
                await producer.stop()


async def _aiokafka_bursts(job: Job, producer: aiokafka.AIOKafkaProducer) -> None:
    while not job.over.is_set():
        values = await asyncio.to_thread(job.burst)
        sent = [await producer.send(job.topic, value, headers=[("padding", PADDING)]) for value in values]
        for value, result in zip(values, await asyncio.gather(*sent, return_exceptions=True), strict=True):
            if isinstance(result, BaseException):
                job.failed(repr(result))
            else:
                _recorded(job, value, result)


async def _aiokafka_transactions(job: Job, producer: aiokafka.AIOKafkaProducer) -> None:
    while not job.over.is_set():
        values = await asyncio.to_thread(job.burst)
        await producer.begin_transaction()
        try:
            sent = [await producer.send(job.topic, value, headers=[("padding", PADDING)]) for value in values]
            places = await asyncio.gather(*sent)
            if int(values[0].rpartition(b":")[2]) // RECORDS % ABORTED_ONE_IN == 0:
                job.written.aborted.update(values)
                await producer.abort_transaction()
                continue
            await producer.commit_transaction()
        except aiokafka.errors.KafkaError:
            if values[0] not in job.written.aborted:
                job.written.unknown.append(set(values))
            raise
        for value, place in zip(values, places, strict=True):
            _recorded(job, value, place)


# kcat


def by_kcat(job: Job) -> None:
    """Write with one process of kcat per burst. It reports no offsets; exit code 0 acknowledges all records."""
    settings = (
        "acks=all",
        f"enable.idempotence={job.mode is Mode.IDEMPOTENT}".lower(),
        f"compression.codec={job.codec}",
    )
    options = [word for setting in settings for word in ("-X", setting)]
    command = ["kcat", "-P", "-q", "-b", job.bootstrap, "-t", job.topic, *options]
    while not job.over.is_set():
        values = job.burst()
        done = subprocess.run(
            command, input=b"\n".join(values), capture_output=True, timeout=3 * PATIENCE_S, check=False
        )
        if done.returncode:
            job.failed(done.stderr.decode(errors="replace"))
        else:
            job.written.acknowledged |= dict.fromkeys(values)


WRITERS: dict[str, Callable[[Job], None]] = {
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
    "librdkafka": by_librdkafka,
    "kcat": by_kcat,
}
