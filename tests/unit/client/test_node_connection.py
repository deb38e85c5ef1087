"""One asyncio connection: pipelining, losses, and versions."""

from __future__ import annotations

import asyncio

import pytest

from quorumd.client.connection import NodeConnection, Outcome
from quorumd.client.security import CLIENT_SECURITY, ClientSecurity
from quorumd.errors import RequestFailed, UnsupportedVersion
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from quorumd.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from quorumd.protocol.wire import Message
from quorumd.security.sasl.settings import ClientSasl
from tests.support.client.fake_node import ALL_APIS, ByteServer, FakeNode
from tests.support.text import shows

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("patient_time")]


def cluster(request: Request) -> Message:
    return DescribeClusterResponse(cluster_id=f"c{request.correlation_id}")


def silence(request: Request) -> None:
    return None


async def test_request_gets_response() -> None:
    async with FakeNode(cluster) as node:
        connection = await NodeConnection.open(*node.address, client_id="me")
        assert connection.peer_ranges == ALL_APIS
        assert await connection.send(DescribeClusterRequest()) == DescribeClusterResponse(cluster_id="c1")
        assert [request.client_id for request in node.requests] == ["me"]
        assert [request.api_version for request in node.requests] == [2]
        assert await connection.send(DescribeClusterRequest(), 0) == DescribeClusterResponse(cluster_id="c2")
        assert node.requests[-1].api_version == 0
        connection.close()


async def test_pipelined_requests_share_one_write_and_get_responses_in_order() -> None:
    async with FakeNode(cluster) as node:
        connection = await NodeConnection.open(*node.address)
        before = node.pieces
        outcomes: list[Outcome] = []
        for _ in range(64):
            connection.submit(DescribeClusterRequest(), outcomes.append)
        assert connection.in_flight == 64
        last = await connection.send(DescribeClusterRequest())
        assert node.pieces == before + 1
        assert outcomes == [DescribeClusterResponse(cluster_id=f"c{number}") for number in range(1, 65)]
        assert last == DescribeClusterResponse(cluster_id="c65")
        connection.close()


async def test_lost_connection_fails_requests_in_flight() -> None:
    async with FakeNode(silence) as node:
        connection = await NodeConnection.open(*node.address)
        sent = [asyncio.ensure_future(connection.send(DescribeClusterRequest())) for _ in range(2)]
        while len(node.requests) < 2:
            await asyncio.sleep(0)
        node.cut()
        for outcome in await asyncio.gather(*sent, return_exceptions=True):
            assert isinstance(outcome, RequestFailed)
            assert shows(str(outcome), f"127.0.0.1:{node.address[1]}", "closed by the node")
        assert not connection.is_open
        with pytest.raises(RequestFailed, match="closed by the node"):
            await connection.send(DescribeClusterRequest())
        assert "closed by the node" in repr(connection)


async def test_closed_connection_fails_requests_in_flight() -> None:
    async with FakeNode(silence) as node:
        connection = await NodeConnection.open(*node.address)
        outcomes: list[Outcome] = []
        connection.submit(DescribeClusterRequest(), outcomes.append)
        assert shows(repr(connection), f"127.0.0.1:{node.address[1]}", "1 in flight")
        connection.close()
        (outcome,) = outcomes
        assert shows(str(outcome), f"127.0.0.1:{node.address[1]}", "closed by this client")


async def test_response_to_cancelled_request_is_dropped() -> None:
    async with FakeNode(cluster) as node:
        connection = await NodeConnection.open(*node.address)
        leaving = asyncio.ensure_future(connection.send(DescribeClusterRequest()))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await connection.send(DescribeClusterRequest()) == DescribeClusterResponse(cluster_id="c2")
        connection.close()


async def test_connection_refused() -> None:
    async with FakeNode(cluster) as node:
        address = node.address
    with pytest.raises(RequestFailed, match=f"127.0.0.1:{address[1]}: Connection refused"):
        await NodeConnection.open(*address)


async def test_node_that_closes_immediately_is_reported() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with ByteServer(talk) as server:
        with pytest.raises(RequestFailed, match=f"connection to 127.0.0.1:{server.address[1]}: "):
            await NodeConnection.open(*server.address)


async def test_server_of_other_protocol_is_reported() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async with ByteServer(talk) as server:
        with pytest.raises(RequestFailed, match=f"{server.address[1]}: .*HTTP"):
            await NodeConnection.open(*server.address)


async def test_older_node_gets_supported_versions() -> None:
    async with FakeNode(cluster, {18: (0, 1), 60: (0, 1)}) as node:
        connection = await NodeConnection.open(*node.address)
        assert connection.best_version(60) == 1
        with pytest.raises(UnsupportedVersion, match=r"Vote .*0 to 2"):
            connection.best_version(52)
        connection.close()
    async with FakeNode(cluster, {18: (0, 1), 60: (3, 9)}) as node:
        connection = await NodeConnection.open(*node.address)
        with pytest.raises(UnsupportedVersion, match=r"\b3 to 9\b"):
            await connection.send(DescribeClusterRequest())
        connection.close()


@pytest.mark.parametrize(("lifetime_ms", "is_open"), [(0, True), (10_000, False)])
async def test_authentication_is_not_used_until_it_expires(
    lifetime_ms: int, is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def log_in(request: Request) -> Message:
        if request.api_key == ApiKey.SASL_HANDSHAKE:
            return SaslHandshakeResponse(0, ["PLAIN"])
        return SaslAuthenticateResponse(0, None, b"", lifetime_ms)

    loop = asyncio.get_running_loop()
    before = CLIENT_SECURITY.set(ClientSecurity(None, ClientSasl("PLAIN", "alice", "secret")))
    try:
        async with FakeNode(log_in) as node:
            began_s = loop.time()
            connection = await NodeConnection.open(*node.address)
            try:
                for later_s, expected in ((8.4, True), (9.0, is_open)):
                    with monkeypatch.context() as clock:
                        clock.setattr(loop, "time", lambda now_s=began_s + later_s: now_s)
                        found = connection.is_open
                    assert found == expected
            finally:
                connection.close()
    finally:
        CLIENT_SECURITY.reset(before)
