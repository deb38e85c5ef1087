"""The load generator against a scripted server: its requests, what it counts and what it does not."""

from __future__ import annotations

import asyncio
import socket
import struct
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count, repeat
from typing import Any, cast

import pytest

from quorumd.client import load as load_generator
from quorumd.client.cluster_client import ClusterClient
from quorumd.client.load import Load, LoadReport, remove_written, write_request
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

Reply = Callable[[int, bytes], bytes]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def _time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advances by a millisecond per call, so that a slow machine writes as much as a fast one."""
    looks = count()
    monkeypatch.setattr(load_generator, "perf_counter", lambda: next(looks) / 1000)
    monkeypatch.setattr(load_generator, "STALLED_S", 300.0)
    monkeypatch.setattr(load_generator, "MAX_WAIT_S", 0.2)
    monkeypatch.setattr(load_generator, "RETRY_BACKOFF_S", 0)


def response(correlation_id: int, error: ErrorCode = ErrorCode.NONE) -> bytes:
    result = AlterConfigsResourceResponse(error, "why" if error else None, 16, "quorumd-load")
    body = struct.pack(">i", correlation_id) + b"\0" + encode(IncrementalAlterConfigsResponse(0, [result]), 1)
    return struct.pack(">i", len(body)) + body


@asynccontextmanager
async def listening(handle: Handler) -> AsyncIterator[int]:
    """The port of a server that passes each connection to `handle` and closes all of them at the end."""
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


async def load(reply: Reply, *, in_flight: int, connections: int = 1) -> LoadReport:
    """A run against a server that responds to each request with the result of `reply`."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            request = await reader.readexactly(size)
            writer.write(reply(struct.unpack_from(">i", request, 4)[0], request))

    async with listening(handle) as port:
        return await measure([port], in_flight=in_flight, connections=connections)


async def measure(ports: list[int], *, in_flight: int = 1, connections: int = 1) -> LoadReport:
    """A run in which the leader is at one port after the other, and stays at the last one."""
    left = iter([*ports[:-1], *repeat(ports[-1], 10_000)])

    async def leader() -> tuple[str, int]:
        return "127.0.0.1", next(left)

    run = Load(leader, seconds=0.1, warm_up_s=0.0, in_flight=in_flight, connections=connections)
    await run.run()
    return run.report()


def test_each_request_sets_one_value_of_its_own_resource() -> None:
    request = write_request("quorumd-load-0-1", 200)
    size, key, version, correlation_id = struct.unpack_from(">ihhi", request)
    assert (size, key, version, correlation_id) == (len(request) - 4, 44, 1, 0)
    client_id_size = struct.unpack_from(">h", request, 12)[0]
    message = decode(IncrementalAlterConfigsRequest, 1, request, 12 + 2 + client_id_size + 1)
    (resource,) = message.resources
    (config,) = resource.configs
    assert (resource.resource_type, resource.resource_name) == (16, "quorumd-load-0-1")
    assert (config.name, config.config_operation) == ("metrics", 0)
    assert config.value == "x" * 200


@pytest.mark.parametrize(("in_flight", "connections"), [(1, 1), (7, 3), (2, 5)])
def test_writes_in_flight_are_maintained_and_counted(in_flight: int, connections: int) -> None:
    report = asyncio.run(
        load(lambda correlation_id, _: response(correlation_id), in_flight=in_flight, connections=connections)
    )
    assert report.connections == min(connections, in_flight)
    assert report.writes > in_flight
    assert list(report.latencies_ms) == sorted(report.latencies_ms)
    assert report.writes_per_second == pytest.approx(report.writes / 0.1)


@pytest.mark.parametrize(("late_s", "is_in_time"), [(0.15, True), (0.4, False)])
def test_run_lasts_until_first_write_succeeds(
    monkeypatch: pytest.MonkeyPatch, late_s: float, is_in_time: bool
) -> None:
    looks = count()

    def reply(correlation_id: int, _: bytes) -> bytes:
        later = count(next(looks) + round(late_s * 1000))
        monkeypatch.setattr(load_generator, "perf_counter", lambda: next(later) / 1000)
        return response(correlation_id)

    monkeypatch.setattr(load_generator, "perf_counter", lambda: next(looks) / 1000)
    run = load(reply, in_flight=1)
    if is_in_time:
        report = asyncio.run(run)
        assert report.writes == 1
        assert late_s < report.seconds < late_s + 0.1
        assert report.longest_pause_ms == pytest.approx(report.seconds * 1000)
    else:
        with pytest.raises(RequestFailed, match="no write"):
            asyncio.run(run)


def test_each_write_in_flight_has_its_own_config() -> None:
    names = set()
    values: dict[bytes, bytes] = {}

    def reply(correlation_id: int, request: bytes) -> bytes:
        name, value = request.partition(b"quorumd-load-")[2][:3], request[-20:]
        assert values.get(name) != value
        values[name] = value
        names.add(name)
        return response(correlation_id)

    asyncio.run(load(reply, in_flight=4, connections=2))
    assert names == {b"0-0", b"0-1", b"1-0", b"1-1"}


class Leader:
    """Stores the names of resources with a value; `late` are written again after the first removal."""

    def __init__(
        self, names: Iterable[str], late: Iterable[str] = (), error: ErrorCode = ErrorCode.NONE
    ) -> None:
        self.left, self.late, self.error = set(names), set(late), error
        self.sizes: list[int] = []

    async def request(self, message: Any, response_class: type, node: str) -> Any:
        assert node == "leader"
        if isinstance(message, IncrementalAlterConfigsRequest):
            self.sizes.append(len(message.resources))
            for resource in message.resources:
                assert [(c.name, c.config_operation) for c in resource.configs] == [("metrics", 1)]
                self.left.discard(resource.resource_name)
            self.left |= self.late
            self.late = set()
            results = [
                AlterConfigsResourceResponse(self.error, None, 16, r.resource_name) for r in message.resources
            ]
            return IncrementalAlterConfigsResponse(0, results)
        found = []
        for requested in message.resources:
            source = 7 if requested.resource_name in self.left else 5
            config = DescribeConfigsResourceResult("metrics", "x", False, source, False)
            found.append(DescribeConfigsResult(0, None, 16, requested.resource_name, [config]))
        return DescribeConfigsResponse(0, found)


def test_written_resources_are_removed_in_parts() -> None:
    names = {f"quorumd-load-0-{slot}" for slot in range(501)}
    leader = Leader([*names, "another"])
    asyncio.run(remove_written(cast(ClusterClient, leader), names))
    assert (leader.left, leader.sizes) == ({"another"}, [500, 1])


def test_write_in_flight_is_removed_too() -> None:
    leader = Leader(["a", "b"], late=["b"])
    asyncio.run(remove_written(cast(ClusterClient, leader), ["a", "b"]))
    assert (leader.left, leader.sizes) == (set(), [2, 1])


def test_resources_that_cannot_be_removed_are_reported() -> None:
    with pytest.raises(RequestFailed):
        asyncio.run(
            remove_written(
                cast(ClusterClient, Leader(["a"], error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)), ["a"]
            )
        )


def test_possibly_written_resources_are_known() -> None:
    written = {"quorumd-load-0-0"}

    async def run() -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                writer.write(response(struct.unpack_from(">i", await reader.readexactly(size), 4)[0]))

        async with listening(handle) as port:

            async def leader() -> tuple[str, int]:
                return "127.0.0.1", port

            await Load(leader, in_flight=3, connections=2, seconds=0.1, warm_up_s=0, written=written).run()

    asyncio.run(run())
    assert written == {"quorumd-load-0-0", "quorumd-load-0-1", "quorumd-load-1-0"}


def test_write_rejected_permanently_ends_run() -> None:
    with pytest.raises(RequestFailed, match="INVALID_CONFIG") as caught:
        asyncio.run(
            load(lambda number, _: response(number, ErrorCode.INVALID_CONFIG), in_flight=4, connections=2)
        )
    assert caught.value.error_code == ErrorCode.INVALID_CONFIG


def test_leader_that_never_accepts_is_reported() -> None:
    with pytest.raises(RequestFailed, match="NOT_CONTROLLER"):
        asyncio.run(load(lambda number, _: response(number, ErrorCode.NOT_CONTROLLER), in_flight=1))


@pytest.mark.parametrize("reason", ["refuses", "hangs up"])
def test_load_continues_at_next_leader(reason: str) -> None:
    report = asyncio.run(_load_two_leaders(reason))
    assert report.writes > 10
    # Some of the three writes in flight may have succeeded just before the end.
    assert 1 <= report.failed <= 3
    assert report.reconnections == 1
    assert report.longest_pause_ms > 0


async def _load_two_leaders(reason: str) -> LoadReport:
    def handler(writes: int) -> Handler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for number in count():
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                correlation_id = struct.unpack_from(">i", request, 4)[0]
                if number < writes:
                    writer.write(response(correlation_id))
                elif reason == "hangs up":
                    return
                else:
                    writer.write(response(correlation_id, ErrorCode.NOT_CONTROLLER))

        return handle

    async with listening(handler(5)) as old, listening(handler(1_000_000)) as new:
        return await measure([old, new], in_flight=3)


def test_measurements_before_cancel_are_reported() -> None:
    report = asyncio.run(_cancelled())
    assert report.writes > 0
    assert report.failed == 0


async def _cancelled() -> LoadReport:
    enough = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in count():
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            request = await reader.readexactly(size)
            writer.write(response(struct.unpack_from(">i", request, 4)[0]))
            if number == 10:
                enough.set()

    async with listening(handle) as port:

        async def leader() -> tuple[str, int]:
            return "127.0.0.1", port

        run = Load(leader, seconds=1e6, warm_up_s=0.0, in_flight=2)
        task = asyncio.ensure_future(run.run())
        await enough.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return run.report()


def test_out_of_order_response_is_not_counted() -> None:
    with pytest.raises(RequestFailed, match="out of order"):
        asyncio.run(load(lambda number, _: response(number + 1), in_flight=2))


def test_broken_connection_is_reported() -> None:
    with pytest.raises(RequestFailed, match="connection"):
        asyncio.run(_load_a_server_that_hangs_up())


async def _load_a_server_that_hangs_up() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)

    async with listening(hang_up) as port:
        await measure([port])


def test_connection_refused_is_reported() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(RequestFailed, match=r"127\.0\.0\.1:\d+"):
            asyncio.run(measure([bound.getsockname()[1]]))


def test_percentiles_are_nearest_ranks() -> None:
    report = LoadReport(1, 1, 200, 2.0, array("d", range(1, 101)))
    assert [report.percentile_ms(percent) for percent in (0, 1, 50, 99, 100)] == [1, 1, 50, 99, 100]
    assert LoadReport(1, 1, 200, 1.0, array("d", [5.0])).percentile_ms(99) == 5.0
