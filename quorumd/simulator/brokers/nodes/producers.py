"""A producer, either plain with acks 0, 1 or all, or idempotent, repeating each batch until its result is final."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

from quorumd.broker.log.records import compressed, encode_record
from quorumd.errors import ErrorCode
from quorumd.protocol.batch_header import HEADER_SIZE, TRANSACTIONAL_BIT, BatchHeader, encode_header
from quorumd.protocol.messages.init_producer_id_request import InitProducerIdRequest
from quorumd.protocol.messages.init_producer_id_response import InitProducerIdResponse
from quorumd.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorumd.protocol.messages.produce_response import ProduceResponse
from quorumd.simulator.brokers.nodes.clients import BACKOFF_MS, BrokerClient, KnownPartition
from quorumd.simulator.brokers.nodes.observed import encode_value
from quorumd.simulator.brokers.nodes.record import Recorder
from quorumd.simulator.brokers.options import BrokerOptions

ALL: Final = -1
BY_ID: Final = 13
"""The first version of Produce with topic ids."""
VERSIONS: Final = (9, 12, BY_ID, BY_ID)
INIT_VERSION: Final = 4
MAX_RECORDS: Final = 3
MAX_PADDING: Final = 200
MAX_ATTEMPTS: Final = 12
EPOCH_CHANGES: Final = 0.05
"""Share of the batches of an idempotent producer after which it changes its epoch."""
LATE_MS: Final = 200.0
"""Mean delay of a late copy of a batch."""
RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


class ProducerId(NamedTuple):
    """A producer id and epoch that the cluster has allocated; -1 before that."""

    id: int = -1
    epoch: int = -1


class Batch(NamedTuple):
    """A batch for one partition, which may be sent several times."""

    to: KnownPartition
    values: tuple[int, ...]
    data: bytes


def encode_batch(
    values: tuple[int, ...],
    producer: ProducerId,
    sequence: int,
    timestamp_ms: int,
    *,
    padding: int = 0,
    codec: int = 0,
    transactional: bool = False,
) -> bytes:
    """Encode a batch of values as a producer does."""
    records = [
        encode_record(delta, 0, None, encode_value(value, padding)) for delta, value in enumerate(values)
    ]
    payload = compressed(b"".join(records), codec)
    attributes = codec | (TRANSACTIONAL_BIT if transactional else 0)
    header = BatchHeader(
        0, HEADER_SIZE + len(payload), 0, len(values), -1, 0, attributes, timestamp_ms, timestamp_ms,
        producer.id, producer.epoch, sequence, len(values),
    )  # fmt: skip
    return encode_header(header, payload)


class Producer:
    """Sends one batch after another to random partitions, until `running` is False.

    A plain producer sends each batch once, to the leader that it knows.
    """

    def __init__(
        self, client: BrokerClient, options: BrokerOptions, recorder: Recorder, acks: int, is_idempotent: bool
    ) -> None:
        self.client = client
        self.running = True
        self.recorder = recorder
        self._options = options
        self._random = client.random
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._id = ProducerId()
        self._sequences: dict[Any, int] = {}
        self._order = 0

    def start(self) -> None:
        """Produce after a random pause."""
        if self.running:
            self.client.later(self._random.random() * 2 * self._options.write_ms, self._next)

    def _next(self) -> None:
        if self._is_idempotent and self._id.id < 0:
            self._request_id()
            return
        partitions = self.client.led_partitions()
        if not partitions or self._random.random() < 0.02:
            self.client.refresh(self.start)
            return
        self._send(self._make_batch(self._random.choice(partitions)), 1)

    def _make_batch(self, to: KnownPartition) -> Batch:
        random = self._random
        session = f"{self.client.name} {self._id.id}/{self._id.epoch}" if self._is_idempotent else ""
        values = []
        for _ in range(1 + random.randrange(MAX_RECORDS)):
            values.append(self.recorder.produce(to.id, session, self._order))
            self._order += 1
        sequence = self._sequences.get(to.id, 0) if self._is_idempotent else -1
        self._sequences[to.id] = sequence + len(values)
        data = encode_batch(
            tuple(values), self._id, sequence, self.recorder.wall_ms(),
            padding=random.randrange(MAX_PADDING), codec=random.choice((0, 0, 1)),
        )  # fmt: skip
        return Batch(to, tuple(values), data)

    def _send(self, batch: Batch, attempt: int) -> None:
        known = self.client.partitions.get(batch.to.id)
        if known is None or known.leader < 0:
            self._failed(batch, attempt, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        version = self._random.choice(VERSIONS)
        request = produce_request(batch, version, self._acks, int(self._options.write_timeout_ms))
        if self._acks == 0:
            self.client.send_without_response(known.leader, request, version)
            self.recorder.unknown(batch.to.id, batch.values)
            self.start()
            return
        done = partial(self._responded, batch, attempt)
        timeout_ms = self._options.write_timeout_ms + 300.0
        self.client.call(known.leader, request, version, done, timeout_ms, "produce")

    def _responded(self, batch: Batch, attempt: int, response: Any) -> None:
        error = produce_error(response)
        if error is ErrorCode.NONE:
            if self._acks == ALL:
                self.recorder.acknowledged(batch.to, batch.values)
            else:
                self.recorder.unknown(batch.to.id, batch.values)
            if self._is_idempotent and self._random.random() < EPOCH_CHANGES:
                self._change_epoch(batch)
            self.start()
        else:
            self._failed(batch, attempt, error)

    def _failed(self, batch: Batch, attempt: int, error: ErrorCode | None) -> None:
        is_final = error is not None and error not in RETRIABLE
        if not self._is_idempotent or is_final or attempt >= MAX_ATTEMPTS:
            # For a batch that was sent once, NOT_ENOUGH_REPLICAS means that it is in no log.
            if error is ErrorCode.NOT_ENOUGH_REPLICAS and attempt == 1:
                self.recorder.refused(batch.to.id, batch.values)
            else:
                self.recorder.unknown(batch.to.id, batch.values)
            if self._is_idempotent:
                # The sequence numbers of this producer id have a gap now.
                self._id = ProducerId()
            self.client.refresh(self.start)
            return
        self.client.refresh(lambda: self.client.later(BACKOFF_MS, partial(self._send, batch, attempt + 1)))

    def _change_epoch(self, batch: Batch) -> None:
        """Number the next records from 0 in the next epoch, as after an error (KIP-360). A copy of the batch arrives
        later, like a request that had timed out."""
        self._id = ProducerId(self._id.id, self._id.epoch + 1)
        self._sequences.clear()
        request = produce_request(batch, BY_ID, self._acks, int(self._options.write_timeout_ms))
        send_late(self.client, batch, request, BY_ID, self._random.random() * 2 * LATE_MS)

    def _request_id(self) -> None:
        def responded(response: Any) -> None:
            if isinstance(response, InitProducerIdResponse) and response.error_code == ErrorCode.NONE:
                self._id = ProducerId(response.producer_id, response.producer_epoch)
                self._sequences.clear()
                self.recorder.allocated(self._id.id, self._id.epoch)
            self.start()

        self.client.call(self.client.any_broker(), InitProducerIdRequest(None), INIT_VERSION, responded)


def produce_request(
    batch: Batch, version: int, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> ProduceRequest:
    """Build the request for one batch."""
    data = PartitionProduceData(batch.to.id.number, batch.data)
    topic = TopicProduceData(batch.to.topic, batch.to.id.topic_id, [data])
    return ProduceRequest(transactional_id, acks, timeout_ms, [topic])


def send_late(
    client: BrokerClient, batch: Batch, request: ProduceRequest, version: int, delay_ms: float
) -> None:
    """Send another copy of a batch after a delay, without effect on the client."""

    def send() -> None:
        known = client.partitions.get(batch.to.id)
        if known is not None and known.leader >= 0:
            # Several copies may be in flight at once.
            purpose = f"late {batch.values[0]}"
            client.call(known.leader, request, version, lambda response: None, purpose=purpose)

    client.later(delay_ms, send)


def produce_error(response: Any) -> ErrorCode | None:
    """Return the result of the only batch of a request, None without a response."""
    if not isinstance(response, ProduceResponse):
        return None
    return ErrorCode(response.responses[0].partition_responses[0].error_code)
