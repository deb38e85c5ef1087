"""A consumer of the metadata log, like Kafka's tools, which follows the leader with long polls. Some of its fetches
are unusual or invalid."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Final

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, METADATA_TOPIC_ID, KafkaUuid
from quorumd.protocol.apis import RAFT_FETCH_VERSION
from quorumd.protocol.messages import fetch_request as wire
from quorumd.protocol.messages.fetch_response import FetchResponse, PartitionData
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.consumers import ConsumersReadCommitted
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.workload.request_loop import Drawn, RequestLoop

HOST: Final = "10.0.8.2"
NAME: Final = "log consumer"
MAX_WAIT_MS: Final = 500
ODD_SHARE: Final = 0.15
"""Share of unusual or invalid fetches: other offsets, epochs, partitions, topics or clusters."""


class LogConsumer(RequestLoop):
    """Fetches from the leader, and reports records to `checker`."""

    def __init__(
        self, cluster: Cluster, random: Random, interval_ms: float, checker: ConsumersReadCommitted
    ) -> None:
        super().__init__(cluster, HOST, NAME, random, interval_ms)
        self.counters: Counter[str] = Counter()
        self._checker = checker
        self._offset = 0
        self._leader_id = -1

    def draw(self) -> Drawn:
        """Draw a fetch of the next records, or an unusual one."""
        random, machines = self._random, self._cluster.machines
        version = random.randint(RAFT_FETCH_VERSION, wire.FetchRequest.MAX_VERSION)
        partition = wire.FetchPartition(METADATA_PARTITION, -1, self._offset, partition_max_bytes=0)
        topic = wire.FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [partition])
        request = wire.FetchRequest(
            max_wait_ms=random.choice((0, MAX_WAIT_MS)),
            max_bytes=random.choice((1, 500, 100_000)),
            topics=[topic],
        )
        if random.random() < ODD_SHARE:
            self._make_odd(request)
        machine = machines.get(self._leader_id) if random.random() < 0.8 else None
        if machine is None:
            machine = random.choice(list(machines.values()))
        handle = partial(self._on_response, partition.fetch_offset)
        return Drawn(request, version, (machine.host, machine.port), handle)

    def _make_odd(self, request: wire.FetchRequest) -> None:
        random, (topic,) = self._random, request.topics
        (partition,) = topic.partitions
        way = random.randrange(7)
        if way == 0:
            partition.fetch_offset = random.choice((0, -1, self._offset + 1, self._offset + 100_000))
        elif way == 1:
            partition.current_leader_epoch = random.choice((0, 1, 1000))
        elif way == 2:
            partition.partition += 1
        elif way == 3:
            topic.topic, topic.topic_id = "unknown", KafkaUuid(random.randbytes(16))
        elif way == 4:
            request.topics = random.choice(([], [topic, topic]))
        elif way == 5:
            request.max_wait_ms = -1
        else:
            request.cluster_id = "another"

    def _on_response(self, fetch_offset: int, message: Message | None) -> None:
        self._leader_id = -1
        if isinstance(message, FetchResponse):
            for topic in message.responses:
                for part in topic.partitions:
                    self._received(fetch_offset, part)

    def _received(self, fetch_offset: int, part: PartitionData) -> None:
        self.counters[f"consumed: {ErrorCode(part.error_code).name}"] += 1
        if part.current_leader is not None:
            self._leader_id = part.current_leader.leader_id
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Like a consumer with auto.offset.reset: the log starts later, or its end is not known yet.
            self._offset = max(0, part.log_start_offset)
        elif not part.error_code:
            self._offset = self._checker.received(
                fetch_offset, part.high_watermark, bytes(part.records or b"")
            )
