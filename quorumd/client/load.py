"""A load of config writes against one node: what it commits in a second, and how long a write waits.

    report = await measure(host, port, in_flight=64, seconds=5)
    report.writes_per_second, report.percentile_ms(99)

Every write is one IncrementalAlterConfigs request with one value; it is answered after commit, so a write
counts once a majority has it on disk. `in_flight` writes are kept going, spread evenly over `connections`
pipelined connections; whenever one is answered, the next leaves. The generator shares the machine with what
it measures, so it does the least: request bytes are made once, only the correlation id is filled in, and of
an answer only the correlation id and the error code are read.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from dataclasses import dataclass
from struct import Struct
from time import perf_counter
from typing import cast

from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.codec import encode
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

CLIENT_METRICS = 16
RESOURCE_NAME = "quorumd-load"
CLIENT_ID = b"quorumd-load"
API_VERSION = 1
ANSWER_PATIENCE_S = 10.0

_REQUEST_START = Struct(">ihhi")
"""Size of the rest, API key, version, correlation id."""
_CORRELATION_ID = Struct(">i")
_CORRELATION_AT = 8
_ANSWER = Struct(">ii5xBh")
"""Size of the rest, correlation id, (no tags, throttle time), number of results + 1, error code of the first."""
_SHORTEST_ANSWER = _ANSWER.size


@dataclass(frozen=True, slots=True)
class LoadReport:
    """One run. `latencies_ms` are those of the counted writes, sorted ascending."""

    in_flight: int
    connections: int
    value_bytes: int
    seconds: float
    latencies_ms: array[float]

    @property
    def writes(self) -> int:
        return len(self.latencies_ms)

    @property
    def writes_per_second(self) -> float:
        return self.writes / self.seconds

    def percentile_ms(self, percent: float) -> float:
        """The latency that `percent` of the writes did not exceed (nearest rank)."""
        rank = -(-len(self.latencies_ms) * percent // 100)
        return self.latencies_ms[max(0, int(rank) - 1)]


async def measure(
    host: str,
    port: int,
    *,
    in_flight: int,
    seconds: float,
    connections: int = 1,
    value_bytes: int = 200,
    warm_up_s: float = 0.5,
) -> LoadReport:
    """Load the leader at `host:port`; counted are the writes answered in the `seconds` after the warm-up.

    Raises RequestFailed when a write is refused (also because the node is not the leader any more), when the
    connection breaks, or when nothing is answered for 10 s.
    """
    loop = asyncio.get_running_loop()
    connections = min(connections, in_flight)
    start = perf_counter() + warm_up_s
    latencies = array("d")
    writers = []
    for number in range(connections):
        shares = in_flight // connections + (number < in_flight % connections)
        requests = [write_request(f"slot-{number}-{slot}", value_bytes) for slot in range(shares)]
        writers.append(_Writer(requests, latencies, start, start + seconds, loop.create_future()))
    transports = []
    try:
        for writer in writers:
            transports.append(await _connect(host, port, writer))
        await asyncio.wait_for(
            asyncio.gather(*(writer.finished for writer in writers)), warm_up_s + seconds + ANSWER_PATIENCE_S
        )
    except TimeoutError:
        raise RequestFailed(f"{host}:{port} left writes unanswered for {ANSWER_PATIENCE_S:.0f} s") from None
    except OSError as error:
        raise RequestFailed(f"{host}:{port} cannot be reached: {error.strerror or error}") from None
    finally:
        for transport in transports:
            transport.abort()
    if not latencies:
        raise RequestFailed(f"{host}:{port} answered no write within {seconds:g} s; measure for longer")
    return LoadReport(in_flight, connections, value_bytes, seconds, array("d", sorted(latencies)))


def write_request(config: str, value_bytes: int) -> bytes:
    """The frame that sets one config of the load's own resource, with correlation id 0."""
    change = AlterableConfig(config, 0, "x" * value_bytes)
    message = IncrementalAlterConfigsRequest([AlterConfigsResource(CLIENT_METRICS, RESOURCE_NAME, [change])])
    body = Struct(">h").pack(len(CLIENT_ID)) + CLIENT_ID + b"\0" + encode(message, API_VERSION)
    size = _REQUEST_START.size - 4 + len(body)
    return _REQUEST_START.pack(size, IncrementalAlterConfigsRequest.API_KEY, API_VERSION, 0) + body


async def _connect(host: str, port: int, writer: _Writer) -> asyncio.Transport:
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: writer, host, port)
    return transport


class _Writer(asyncio.Protocol):
    """One connection that keeps as many writes going as it was given requests."""

    def __init__(
        self,
        requests: list[bytes],
        latencies: array[float],
        start: float,
        deadline: float,
        finished: asyncio.Future[None],
    ) -> None:
        self.finished = finished
        self._parts = [(request[:_CORRELATION_AT], request[_CORRELATION_AT + 4 :]) for request in requests]
        self._latencies = latencies
        self._start = start
        self._deadline = deadline
        self._sent: deque[tuple[int, float]] = deque()
        """Slot and time of each write that waits for its answer, oldest first: answers come in order."""
        self._correlation_id = 0
        self._answered = 0
        self._gathered = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        self._send(range(len(self._parts)), perf_counter())

    def data_received(self, data: bytes) -> None:
        now = perf_counter()
        if self._gathered:
            data = self._gathered + data
        position = 0
        answered = []
        counted = self._start <= now <= self._deadline
        while position + _SHORTEST_ANSWER <= len(data):
            size, correlation_id, count, error_code = _ANSWER.unpack_from(data, position)
            if position + 4 + size > len(data):
                break
            if correlation_id != self._answered or count != 2 or error_code != 0:
                self._refused(correlation_id, error_code)
                return
            self._answered += 1
            position += 4 + size
            slot, sent = self._sent.popleft()
            answered.append(slot)
            if counted:
                self._latencies.append((now - sent) * 1000)
        self._gathered = data[position:]
        if now < self._deadline:
            self._send(answered, now)
        elif not self._sent and not self.finished.done():
            self.finished.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(
                RequestFailed(f"the connection broke under load: {error or 'closed'}")
            )

    def _send(self, slots: range | list[int], now: float) -> None:
        frames = bytearray()
        for slot in slots:
            before, after = self._parts[slot]
            frames += before
            frames += _CORRELATION_ID.pack(self._correlation_id)
            frames += after
            self._correlation_id += 1
            self._sent.append((slot, now))
        if frames:
            self._transport.write(frames)

    def _refused(self, correlation_id: int, error_code: int) -> None:
        if not self.finished.done():
            what = (
                ErrorCode.describe(error_code) if error_code else f"answer {correlation_id} is out of order"
            )
            self.finished.set_exception(RequestFailed(f"a write was refused: {what}", error_code))
        self._transport.abort()
