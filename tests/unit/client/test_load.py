"""The load generator against a scripted server: what it sends, what it counts, what it refuses to count."""

from __future__ import annotations

import asyncio
import socket
import struct
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest

from quorumd.client import load as load_generator
from quorumd.client.load import LoadReport, measure, write_request
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

Answer = Callable[[int, bytes], bytes]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def _time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on by a millisecond whenever it is looked at: a slow machine does not write less."""
    looks = count()
    monkeypatch.setattr(load_generator, "perf_counter", lambda: next(looks) / 1000)
    monkeypatch.setattr(load_generator, "ANSWER_PATIENCE_S", 300.0)


def answer(correlation_id: int, error: ErrorCode = ErrorCode.NONE) -> bytes:
    result = AlterConfigsResourceResponse(error, "why" if error else None, 16, "quorumd-load")
    body = struct.pack(">i", correlation_id) + b"\0" + encode(IncrementalAlterConfigsResponse(0, [result]), 1)
    return struct.pack(">i", len(body)) + body


@asynccontextmanager
async def listening(handle: Handler) -> AsyncIterator[int]:
    """The port of a server that gives each connection to `handle`, and has closed all of them at the end."""
    connections: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*connections)


async def load(reply: Answer, *, in_flight: int, connections: int = 1) -> LoadReport:
    """One run against a server that answers each request with what `reply` makes of it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            request = await reader.readexactly(size)
            writer.write(reply(struct.unpack_from(">i", request, 4)[0], request))

    async with listening(handle) as port:
        return await measure(
            "127.0.0.1", port, seconds=0.1, warm_up_s=0.0, in_flight=in_flight, connections=connections
        )


def test_a_request_is_one_value_for_a_resource_of_its_own() -> None:
    request = write_request("slot-0-1", 200)
    size, key, version, correlation_id = struct.unpack_from(">ihhi", request)
    assert (size, key, version, correlation_id) == (len(request) - 4, 44, 1, 0)
    client_id_size = struct.unpack_from(">h", request, 12)[0]
    message = decode(IncrementalAlterConfigsRequest, 1, request, 12 + 2 + client_id_size + 1)
    (resource,) = message.resources
    (config,) = resource.configs
    assert (resource.resource_type, config.name, config.config_operation) == (16, "slot-0-1", 0)
    assert config.value == "x" * 200


@pytest.mark.parametrize(("in_flight", "connections"), [(1, 1), (7, 3), (2, 5)])
def test_the_writes_in_flight_are_kept_and_counted(in_flight: int, connections: int) -> None:
    report = asyncio.run(
        load(lambda correlation_id, _: answer(correlation_id), in_flight=in_flight, connections=connections)
    )
    assert report.connections == min(connections, in_flight)
    assert report.writes > in_flight
    assert list(report.latencies_ms) == sorted(report.latencies_ms)
    assert report.writes_per_second == pytest.approx(report.writes / 0.1)


def test_every_write_in_flight_uses_its_own_config() -> None:
    names = set()

    def reply(correlation_id: int, request: bytes) -> bytes:
        names.add(request.partition(b"slot-")[2][:3])
        return answer(correlation_id)

    asyncio.run(load(reply, in_flight=4, connections=2))
    assert names == {b"0-0", b"0-1", b"1-0", b"1-1"}


def test_a_refused_write_ends_the_run_with_the_error() -> None:
    with pytest.raises(RequestFailed, match="NOT_CONTROLLER") as caught:
        asyncio.run(
            load(lambda number, _: answer(number, ErrorCode.NOT_CONTROLLER), in_flight=4, connections=2)
        )
    assert caught.value.error_code == ErrorCode.NOT_CONTROLLER


def test_an_answer_out_of_order_is_never_counted() -> None:
    with pytest.raises(RequestFailed, match="out of order"):
        asyncio.run(load(lambda number, _: answer(number + 1), in_flight=2))


def test_a_broken_connection_is_told() -> None:
    with pytest.raises(RequestFailed, match="broke under load"):
        asyncio.run(_load_a_server_that_hangs_up())


async def _load_a_server_that_hangs_up() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)

    async with listening(hang_up) as port:
        await measure("127.0.0.1", port, in_flight=1, seconds=0.1)


def test_nobody_listening_is_told() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(RequestFailed, match=r"127\.0\.0\.1:\d+ cannot be reached"):
            asyncio.run(measure("127.0.0.1", bound.getsockname()[1], in_flight=1, seconds=0.1))


def test_percentiles_are_nearest_ranks() -> None:
    report = LoadReport(1, 1, 200, 2.0, array("d", range(1, 101)))
    assert [report.percentile_ms(percent) for percent in (0, 1, 50, 99, 100)] == [1, 1, 50, 99, 100]
    assert LoadReport(1, 1, 200, 1.0, array("d", [5.0])).percentile_ms(99) == 5.0
