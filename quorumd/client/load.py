"""Generates a load of config writes for the leader, and measures throughput, latency and pauses.

    load = Load(leader, in_flight=64, seconds=5, written=names)     # `leader` finds the address of the leader
    await load.run()
    load.report().writes_per_second, .percentile_ms(99), .longest_pause_ms
    await remove_written(admin, names)

Every write is one IncrementalAlterConfigs request with one value. The response follows the commit, so a write
counts once a majority has it on disk. `in_flight` writes are kept in progress, spread evenly over `connections`
pipelined connections; each response triggers the next write. If the leader changes, pending writes count as failed
and the load continues at the new one. The generator shares the machine with the nodes, so it does little work:
requests are encoded once and get only a new correlation id, and only the correlation id and the error code of a
response are decoded.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from struct import Struct
from time import perf_counter
from typing import cast

from quorumd.client.cluster_client import RETRIABLE_ERRORS, ClusterClient, raise_on_error
from quorumd.client.leader_discovery import Address
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.codec import encode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResponse
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

CLIENT_METRICS = int(ConfigResourceType.CLIENT_METRICS)
RESOURCE_NAME = "quorumd-load"
CONFIG = "metrics"
"""A config that accepts any text, so values can have any size."""
FILL_CHARACTERS = "xy"
"""Used alternately: a stock controller commits nothing if the value is unchanged."""
CLIENT_ID = b"quorumd-load"
API_VERSION = 1
WARM_UP_S = 0.5
MAX_WAIT_S = 30.0
"""A run without a successful write is continued for this long, until there is one."""
STALLED_S = 3.0
"""A leader without responses for this long is considered failed."""
RETRY_BACKOFF_S = 0.05
RESOURCES_PER_REMOVAL = 500
"""Resources whose configs are deleted in one request."""
REMOVAL_ATTEMPTS = 3
"""A write in flight when its connection was closed may take effect after a removal."""
_SET, _DELETE = 0, 1
_OWN_SOURCE = 7
"""The DescribeConfigs source of configs of a client-metrics resource itself."""

_REQUEST_START = Struct(">ihhi")
"""Remaining size, API key, version, correlation id."""
_CORRELATION_ID = Struct(">i")
_CORRELATION_AT = 8
_RESPONSE = Struct(">ii5xBh")
"""Remaining size, correlation id, (no tags, throttle time), number of results + 1, error code of the first result."""
_MIN_RESPONSE_SIZE = _RESPONSE.size


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The measurements of a run."""

    in_flight: int
    connections: int
    value_bytes: int
    seconds: float
    latencies_ms: array[float]
    """The latencies of the counted writes, ascending."""
    failed: int = 0
    """Rejected writes, and writes without a response."""
    reconnections: int = 0
    longest_pause_ms: float = 0.0
    """The longest time without a successful write."""

    @property
    def writes(self) -> int:
        return len(self.latencies_ms)

    @property
    def writes_per_second(self) -> float:
        return self.writes / self.seconds

    def percentile_ms(self, percent: float) -> float:
        """Return the latency that `percent` of the writes did not exceed (nearest rank)."""
        rank = -(-len(self.latencies_ms) * percent // 100)
        return self.latencies_ms[max(0, int(rank) - 1)]


@dataclass(slots=True)
class _Totals:
    """The totals of all connections of a run, from `start` to `deadline`.

    `deadline` is `end`, or the time of the first successful write if that is later.
    """

    start: float
    end: float
    deadline: float = field(init=False)
    latencies: array[float] = field(default_factory=lambda: array("d"))
    completed: int = 0
    failed: int = 0
    longest_pause_s: float = 0.0
    _last: float = 0.0

    def __post_init__(self) -> None:
        self.deadline = self.end + MAX_WAIT_S

    def record_success(self, now: float) -> None:
        """Record successful writes at this time."""
        if self.start <= now <= self.deadline:
            if not self._last:
                self.deadline = max(self.end, now)
            self.longest_pause_s = max(self.longest_pause_s, self.pause_s(now))
            self._last = now

    def pause_s(self, now: float) -> float:
        return min(now, self.deadline) - max(self._last, self.start)


class Load:
    """A run against the current leader. `report` may be called at any time, also after the run was cancelled.
    Resources that may have been written are added to `written`, for `remove_written`."""

    def __init__(
        self,
        leader: Callable[[], Awaitable[Address]],
        *,
        in_flight: int,
        seconds: float,
        connections: int = 1,
        value_bytes: int = 200,
        warm_up_s: float = WARM_UP_S,
        written: set[str] | None = None,
    ) -> None:
        self._leader = leader
        self._in_flight = in_flight
        self._connections = min(connections, in_flight)
        self._value_bytes = value_bytes
        start = perf_counter() + warm_up_s
        self._totals = _Totals(start, start + seconds)
        self._attempts = 0
        self._written = set() if written is None else written

    async def run(self) -> None:
        """Write until the time is over, to the current leader, or on a slow machine until the first write succeeds.

        Raises RequestFailed if a leader rejects a write with a fatal error, or if nothing was written.
        """
        failure: Exception | None = None
        while (left_s := self._totals.deadline - perf_counter()) > 0:
            try:
                address = await asyncio.wait_for(self._leader(), left_s)
                self._attempts += 1
                await self._write_to(address)
            except TimeoutError:
                break
            except RequestFailed as error:
                if error.error_code not in (*RETRIABLE_ERRORS, ErrorCode.NONE):
                    raise
                failure = error
                await asyncio.sleep(RETRY_BACKOFF_S)
        if not self._totals.latencies:
            raise failure or RequestFailed(
                f"no write succeeded within {MAX_WAIT_S:.0f} s after the end of the run"
            )

    def report(self) -> LoadReport:
        """Return the measurements so far."""
        totals, now = self._totals, perf_counter()
        return LoadReport(
            self._in_flight,
            self._connections,
            self._value_bytes,
            max(0.0, min(now, totals.deadline) - totals.start),
            array("d", sorted(totals.latencies)),
            totals.failed,
            max(0, self._attempts - 1),
            max(0.0, totals.longest_pause_s, totals.pause_s(now)) * 1000,
        )

    async def _write_to(self, address: Address) -> None:
        """Write to one node until the time is over. Raises RequestFailed if the node stops accepting writes."""
        loop = asyncio.get_running_loop()
        writers = []
        transports: list[asyncio.Transport] = []
        for number in range(self._connections):
            share = self._in_flight // self._connections + (number < self._in_flight % self._connections)
            names = [resource_name(number, slot) for slot in range(share)]
            self._written.update(names)
            requests = [self._requests(name) for name in names]
            writers.append(_Writer(requests, self._totals, loop.create_future()))
        try:
            for writer in writers:
                transports.append(await _connect(writer, *address))
            await self._wait_finished([writer.finished for writer in writers], address)
        except (OSError, RequestFailed) as error:
            self._totals.failed += sum(writer.outstanding for writer in writers)
            if isinstance(error, RequestFailed):
                raise
            reason = error.strerror or error
            raise RequestFailed(f"cannot connect to {address[0]}:{address[1]}: {reason}") from None
        finally:
            for writer in writers:
                writer.close()
            for transport in transports:
                transport.abort()

    def _requests(self, resource: str) -> tuple[bytes, bytes]:
        """Return two frames with different values, to be sent alternately."""
        first, second = (
            write_request(resource, self._value_bytes, fill_character) for fill_character in FILL_CHARACTERS
        )
        return first, second

    async def _wait_finished(self, finished: list[asyncio.Future[None]], address: Address) -> None:
        left: set[asyncio.Future[None]] = set(finished)
        while left:
            before = self._totals.completed
            done, left = await asyncio.wait(left, timeout=STALLED_S, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
            if not done and self._totals.completed == before:
                raise RequestFailed(f"{address[0]}:{address[1]} did not respond for {STALLED_S:.0f} s")


def resource_name(connection: int, slot: int) -> str:
    """Return the resource written by one of the concurrent writes."""
    return f"{RESOURCE_NAME}-{connection}-{slot}"


def write_request(resource: str, value_bytes: int, fill_character: str = FILL_CHARACTERS[0]) -> bytes:
    """Return the frame that sets the config of one of the load's resources, with correlation id 0."""
    change = AlterableConfig(CONFIG, _SET, fill_character * value_bytes)
    message = IncrementalAlterConfigsRequest([AlterConfigsResource(CLIENT_METRICS, resource, [change])])
    body = Struct(">h").pack(len(CLIENT_ID)) + CLIENT_ID + b"\0" + encode(message, API_VERSION)
    size = _REQUEST_START.size - 4 + len(body)
    return _REQUEST_START.pack(size, IncrementalAlterConfigsRequest.API_KEY, API_VERSION, 0) + body


async def remove_written(client: ClusterClient, names: Iterable[str]) -> None:
    """Delete the config of these resources, which have no other configs. Raises RequestFailed."""
    left = sorted(names)
    for _ in range(REMOVAL_ATTEMPTS):
        left = [
            name
            for first in range(0, len(left), RESOURCES_PER_REMOVAL)
            for name in await _removed(client, left[first : first + RESOURCES_PER_REMOVAL])
        ]
        if not left:
            return
    raise RequestFailed(f"another load is writing {left[0]}")


async def _removed(client: ClusterClient, names: Sequence[str]) -> list[str]:
    """Delete the configs and return the resources that were written again since."""
    change = AlterableConfig(CONFIG, _DELETE, None)
    request = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(CLIENT_METRICS, name, [change]) for name in names]
    )
    altered = await client.request(request, IncrementalAlterConfigsResponse, "leader")
    for result in altered.responses:
        raise_on_error(result.error_code, result.error_message, result.resource_name)
    query = DescribeConfigsRequest(
        [DescribeConfigsResource(CLIENT_METRICS, name, [CONFIG]) for name in names]
    )
    described = await client.request(query, DescribeConfigsResponse, "leader")
    return [
        result.resource_name
        for result in described.results
        if any(config.config_source == _OWN_SOURCE for config in result.configs)
    ]


async def _connect(writer: _Writer, host: str, port: int) -> asyncio.Transport:
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: writer, host, port)
    return transport


class _Writer(asyncio.Protocol):
    """A connection that keeps one write per given request in progress."""

    def __init__(
        self,
        requests: list[tuple[bytes, bytes]],
        totals: _Totals,
        finished: asyncio.Future[None],
    ) -> None:
        self.finished = finished
        self._parts = [
            (first[:_CORRELATION_AT], first[_CORRELATION_AT + 4 :], second[_CORRELATION_AT + 4 :])
            for first, second in requests
        ]
        self._totals = totals
        self._sent: deque[tuple[int, float]] = deque()
        """Slot and start time of each pending write, oldest first: responses arrive in order."""
        self._correlation_id = 0
        self._completed = 0
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        self._send(range(len(self._parts)), perf_counter())

    def data_received(self, data: bytes) -> None:
        now = perf_counter()
        if self._buffer:
            data = self._buffer + data
        position = 0
        completed = []
        totals = self._totals
        counted = totals.start <= now <= totals.deadline
        while position + _MIN_RESPONSE_SIZE <= len(data):
            size, correlation_id, count, error_code = _RESPONSE.unpack_from(data, position)
            if position + 4 + size > len(data):
                break
            if correlation_id != self._completed or count != 2 or error_code != 0:
                self._fail(correlation_id, error_code)
                return
            self._completed += 1
            position += 4 + size
            slot, sent = self._sent.popleft()
            completed.append(slot)
            if counted:
                totals.latencies.append((now - sent) * 1000)
        self._buffer = data[position:]
        if completed:
            totals.completed += len(completed)
            totals.record_success(now)
        if now < totals.deadline:
            self._send(completed, now)
        elif not self._sent and not self.finished.done():
            self.finished.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(RequestFailed(f"connection lost under load: {error or 'closed'}"))

    @property
    def outstanding(self) -> int:
        return len(self._sent)

    def close(self) -> None:
        """Stop waiting for the writes."""
        if not self.finished.done():
            self.finished.cancel()
        elif not self.finished.cancelled():
            self.finished.exception()  # another connection's failure may already have been raised

    def _send(self, slots: range | list[int], now: float) -> None:
        frames = bytearray()
        for slot in slots:
            before, after, later = self._parts[slot]
            self._parts[slot] = before, later, after
            frames += before
            frames += _CORRELATION_ID.pack(self._correlation_id)
            frames += after
            self._correlation_id += 1
            self._sent.append((slot, now))
        if frames:
            self._transport.write(frames)

    def _fail(self, correlation_id: int, error_code: int) -> None:
        if not self.finished.done():
            what = ErrorCode.describe(error_code)
            if not error_code:
                what, error_code = f"response {correlation_id} is out of order", ErrorCode.CORRUPT_MESSAGE
            self.finished.set_exception(RequestFailed(f"a write failed: {what}", error_code))
        self._transport.abort()
