"""Both ends of a connection without a socket: headers, order, negotiation, and malformed input."""

from __future__ import annotations

import io
from typing import Any

import pytest
from kio.schema.request_header.v1.header import RequestHeader as RequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as RequestHeaderV2
from kio.schema.response_header.v0.header import ResponseHeader as ResponseHeaderV0
from kio.schema.response_header.v1.header import ResponseHeader as ResponseHeaderV1
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from quorumd.errors import ErrorCode, MalformedMessage, MessageTooLarge, UnsupportedVersion
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.connection import (
    ClientConnection,
    Request,
    ServerConnection,
    encode_response,
    read_request,
)
from quorumd.protocol.handshake import Handshake, choose_version
from quorumd.protocol.messages import alter_partition_request, create_topics_request, describe_quorum_request
from quorumd.protocol.messages.alter_partition_response import AlterPartitionResponse
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResponse
from quorumd.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from quorumd.protocol.wire import Message
from tests.support.text import shows

SPOKEN = {key: (api.min_version, api.max_version) for key, api in APIS.items()}
LIMIT = 1 << 20


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def kio_bytes(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def request_bytes(
    message: Message, version: int, correlation_id: int = 7, client_id: str | None = "test"
) -> bytes:
    """A frame whose header kio wrote."""
    assert message.API_KEY is not None
    header_class = RequestHeaderV2 if APIS[message.API_KEY].is_flexible(version) else RequestHeaderV1
    header = header_class(
        request_api_key=i16(message.API_KEY),
        request_api_version=i16(version),
        correlation_id=i32(correlation_id),
        client_id=client_id,
    )
    return frame(kio_bytes(header) + encode(message, version))


def server() -> ServerConnection:
    return ServerConnection(LIMIT, SPOKEN)


def send(connection: ServerConnection, *correlation_ids: int) -> list[Request]:
    return connection.receive(
        b"".join(request_bytes(DescribeClusterRequest(), 1, number) for number in correlation_ids)
    )


def reply(cluster_id: str = "c") -> DescribeClusterResponse:
    return DescribeClusterResponse(cluster_id=cluster_id)


def correlation_ids(output: bytes) -> list[int]:
    found = []
    while output:
        size = int.from_bytes(output[:4], "big")
        found.append(int.from_bytes(output[4:8], "big"))
        output = output[4 + size :]
    return found


class TestRequests:
    @pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
    @pytest.mark.parametrize("client_id", [None, "", "client", "schön"])
    def test_headers_as_kio_writes_them(self, version: int, client_id: str | None) -> None:
        message = ApiVersionsRequest("name", "1.0") if version >= 3 else ApiVersionsRequest()
        connection = server()
        (request,) = connection.receive(request_bytes(message, version, 99, client_id))
        assert (request.api_key, request.api_version, request.correlation_id) == (18, version, 99)
        assert request.client_id == client_id
        assert request.message == message
        assert request.connection is connection
        assert decode(ApiVersionsRequest, version, request.frame, request.body_offset) == message

    def test_tagged_fields_of_the_header_are_skipped(self) -> None:
        head = bytes.fromhex("003c 0001 00000005 0001 61")
        tags = bytes.fromhex("02 00 01 ff 4d 00")
        (request,) = server().receive(frame(head + tags + encode(DescribeClusterRequest(), 1)))
        assert (request.correlation_id, request.client_id) == (5, "a")
        assert request.message == DescribeClusterRequest()

    def test_split_at_every_byte(self) -> None:
        data = request_bytes(DescribeClusterRequest(), 1, 1) + request_bytes(ApiVersionsRequest(), 0, 2)
        for cut in range(len(data) + 1):
            connection = server()
            found = connection.receive(data[:cut]) + connection.receive(data[cut:])
            assert [request.correlation_id for request in found] == [1, 2]

    def test_repr_names_the_request(self) -> None:
        (request,) = send(server(), 4)
        assert shows(repr(request), "4", "DescribeClusterRequest v1", "'test'")

    @pytest.mark.parametrize("length", range(1, 10))
    def test_frame_without_a_whole_header(self, length: int) -> None:
        with pytest.raises(MalformedMessage, match=rf"\b{length} bytes"):
            server().receive(frame(b"\0" * length))

    def test_every_prefix_of_a_request_is_malformed(self) -> None:
        for version in (0, 3):
            payload = request_bytes(ApiVersionsRequest(), version)[4:]
            for length in range(len(payload)):
                with pytest.raises(MalformedMessage):
                    server().receive(frame(payload[:length]))

    def test_every_changed_byte_gives_a_request_or_malformed(self) -> None:
        payload = request_bytes(DescribeConfigsRequest(), 4)[4:]
        for at in range(len(payload)):
            for value in (0, 1, 0x7F, 0x80, 0xFF):
                changed = payload[:at] + bytes([value]) + payload[at + 1 :]
                try:
                    server().receive(frame(changed))
                except MalformedMessage:
                    continue

    @pytest.mark.parametrize(
        "client_id",
        [b"\xff\xfeabc", b"\x7f\xffabc", b"\x00\x02\xff\xff"],
        ids=["negative length", "longer than the frame", "not UTF-8"],
    )
    @pytest.mark.parametrize("version", [0, 3])
    def test_malformed_client_id(self, client_id: bytes, version: int) -> None:
        head = b"\0\x12" + version.to_bytes(2, "big") + b"\0\0\0\1"
        with pytest.raises(MalformedMessage, match=r"header .*ApiVersionsRequest"):
            server().receive(frame(head + client_id))

    def test_bytes_after_the_message_are_ignored(self) -> None:
        """librdkafka requests all topics with three bytes too many (its issue 5049)."""
        payload = request_bytes(DescribeClusterRequest(), 1)[4:] + b"\1\0\0"
        (request,) = server().receive(frame(payload))
        assert request.message == DescribeClusterRequest()

    def test_frame_above_the_ceiling(self) -> None:
        with pytest.raises(MalformedMessage, match=r"socket\.request\.max\.bytes"):
            ServerConnection(10, SPOKEN).receive(request_bytes(DescribeClusterRequest(), 1))

    def test_unsupported_api_closes_the_connection(self) -> None:
        with pytest.raises(MalformedMessage, match="999 v1"):
            server().receive(frame(bytes.fromhex("03e7 0001 00000001 ffff")))
        with pytest.raises(MalformedMessage, match="DescribeCluster v1"):
            ServerConnection(LIMIT, {18: (0, 4)}).receive(request_bytes(DescribeClusterRequest(), 1))

    def test_unsupported_version_closes_the_connection(self) -> None:
        connection = ServerConnection(LIMIT, {60: (0, 1)})
        with pytest.raises(MalformedMessage, match=r"DescribeCluster v2 .*0 to 1"):
            connection.receive(request_bytes(DescribeClusterRequest(), 2))

    def test_request_within_an_envelope(self) -> None:
        payload = request_bytes(DescribeClusterRequest(), 1, 5)[4:]
        request = read_request(payload, SPOKEN)
        assert (request.correlation_id, request.connection) == (5, None)
        data = encode_response(request, reply())
        assert data == b"\0\0\0\5\0" + encode(reply(), 1)
        with pytest.raises(UnsupportedVersion, match="DescribeCluster v1"):
            read_request(payload, {})


class TestResponses:
    @pytest.mark.parametrize(
        ("message", "response", "version", "header_class"),
        [
            (DescribeConfigsRequest(), DescribeConfigsResponse(), 3, ResponseHeaderV0),
            (DescribeConfigsRequest(), DescribeConfigsResponse(), 4, ResponseHeaderV1),
            (ApiVersionsRequest(), ApiVersionsResponse(), 0, ResponseHeaderV0),
            (ApiVersionsRequest(), ApiVersionsResponse(), 4, ResponseHeaderV0),
        ],
    )
    def test_headers_as_kio_reads_them(
        self, message: Message, response: Message, version: int, header_class: Any
    ) -> None:
        connection = server()
        (request,) = connection.receive(request_bytes(message, version, 31))
        connection.respond(request, response)
        header = kio_bytes(header_class(correlation_id=i32(31)))
        assert connection.take_output() == frame(header + encode(response, version))
        assert entity_reader(header_class)(header, 0)[0].correlation_id == 31

    def test_leave_in_the_order_of_the_requests(self) -> None:
        connection = server()
        requests = send(connection, 1, 2, 3, 4)
        connection.respond(requests[2], reply("third"))
        connection.respond(requests[1], reply("second"))
        assert connection.take_output() == b""
        assert connection.pending == 4
        connection.respond(requests[0], reply("first"))
        assert connection.pending == 1
        output = connection.take_output()
        assert correlation_ids(output) == [1, 2, 3]
        assert [output.find(word) for word in (b"first", b"second", b"third")] == sorted(
            output.find(word) for word in (b"first", b"second", b"third")
        )
        connection.respond(requests[3], reply())
        assert correlation_ids(connection.take_output()) == [4]
        assert connection.take_output() == b""
        assert connection.pending == 0

    def test_released_bytes_of_a_request_are_not_pending(self) -> None:
        """Reading from a connection pauses while too many bytes are pending."""
        connection = server()
        first, second = send(connection, 1, 2)
        assert connection.pending_bytes == len(first.frame) + len(second.frame)
        first.release_frame()
        assert connection.pending_bytes == len(second.frame)
        connection.respond(first, reply())
        connection.respond(second, reply())
        assert connection.pending_bytes == 0

    def test_late_and_timely_responses_are_the_same_bytes(self) -> None:
        outputs = []
        for order in ((0, 1), (1, 0)):
            connection = server()
            requests = send(connection, 1, 2)
            for at in order:
                connection.respond(requests[at], reply())
            outputs.append(connection.take_output())
        assert outputs[0] == outputs[1]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_forwarded_response_keeps_its_place(self, order: tuple[int, int]) -> None:
        connection = server()
        requests = send(connection, 1, 2)
        for at in order:
            connection.respond_encoded(requests[at], encode_response(requests[at], reply()))
        assert correlation_ids(connection.take_output()) == [1, 2]

    def test_response_that_cannot_be_encoded_leaves_nothing_behind(self) -> None:
        connection = server()
        first, second = connection.receive(
            request_bytes(DescribeClusterRequest(), 0, 1) + request_bytes(DescribeClusterRequest(), 0, 2)
        )
        unfit = DescribeClusterResponse(endpoint_type=2)
        for request in (first, second):
            with pytest.raises(UnsupportedVersion, match="endpoint_type"):
                connection.respond(request, unfit)
        assert (connection.take_output(), connection.pending) == (b"", 2)
        connection.respond(second, reply())
        connection.respond(first, reply())
        assert correlation_ids(connection.take_output()) == [1, 2]

    def test_second_response_is_refused(self) -> None:
        connection = server()
        first, second = send(connection, 1, 2)
        connection.respond(second, reply())
        with pytest.raises(ValueError, match="already has a response"):
            connection.respond(second, reply())
        connection.respond(first, reply())
        with pytest.raises(ValueError, match="already has a response"):
            connection.respond(first, reply())
        with pytest.raises(ValueError, match="another connection"):
            server().respond(send(server(), 3)[0], reply())


class TestTooLargeRequests:
    def test_are_rejected_if_their_response_has_a_top_level_error(self) -> None:
        connection = ServerConnection(8 * LIMIT, {55: (0, 2), 60: (0, 2)})
        wire = describe_quorum_request
        large = wire.DescribeQuorumRequest([wire.TopicData("")] * 400_000)
        assert connection.receive(request_bytes(large, 2, 7)) == []
        output = connection.take_output()
        assert correlation_ids(output) == [7]
        refusal = decode(DescribeQuorumResponse, 2, output, 9)
        assert refusal.error_code == ErrorCode.INVALID_REQUEST
        assert "the limit is" in (refusal.error_message or "")
        assert len(send(connection, 8)) == 1, "the connection stays open"

    def test_close_the_connection_without_a_top_level_error(self) -> None:
        wire = create_topics_request
        large = wire.CreateTopicsRequest([wire.CreatableTopic("")] * 400_000)
        with pytest.raises(MessageTooLarge, match="the limit is"):
            ServerConnection(8 * LIMIT, {19: (2, 7)}).receive(request_bytes(large, 7))


class TestUnknownApiVersions:
    def test_gets_version_0_with_the_range_of_api_versions(self) -> None:
        """As in Kafka (KIP-511); private API keys are omitted."""
        connection = ServerConnection(LIMIT, {60: (0, 2), 18: (0, 4), 1001: (0, 0)})
        newer = bytes.fromhex("0012 0005 00000009 0001 61 00 ffffffffff")
        assert not connection.has_output
        assert connection.receive(frame(newer)) == []
        assert connection.has_output
        assert connection.take_output() == frame(bytes.fromhex("00000009 0023 00000001 001200000004"))
        assert connection.pending == 0

    def test_response_keeps_its_place(self) -> None:
        connection = server()
        (request,) = send(connection, 1)
        connection.receive(frame(bytes.fromhex("0012 0063 00000002 ffff")))
        assert connection.take_output() == b""
        connection.respond(request, reply())
        assert correlation_ids(connection.take_output()) == [1, 2]

    def test_server_without_api_versions_closes(self) -> None:
        with pytest.raises(MalformedMessage, match="ApiVersions v99"):
            ServerConnection(LIMIT, {60: (0, 2)}).receive(frame(bytes.fromhex("0012 0063 00000002 ffff")))


class TestClient:
    @pytest.mark.parametrize("version", [3, 4])
    def test_requests_as_kio_writes_them(self, version: int) -> None:
        client = ClientConnection("test")
        for expected in (0, 1):
            correlation_id, data = client.request(DescribeConfigsRequest(), version)
            assert correlation_id == expected
            assert data == request_bytes(DescribeConfigsRequest(), version, expected)
        assert client.in_flight == 2
        assert client.in_flight == 2

    def test_exchange_with_a_server_split_at_every_byte(self) -> None:
        for cut in range(60):
            client, connection = ClientConnection("a"), server()
            data = (
                client.request(DescribeConfigsRequest(), 3)[1]
                + client.request(DescribeConfigsRequest(), 4)[1]
            )
            requests = connection.receive(data[:cut]) + connection.receive(data[cut:])
            for request in requests:
                connection.respond(request, DescribeConfigsResponse(throttle_time_ms=request.api_version))
            output = connection.take_output()
            responses = client.receive(output[:cut]) + client.receive(output[cut:])
            assert responses == [
                (0, DescribeConfigsResponse(throttle_time_ms=3)),
                (1, DescribeConfigsResponse(throttle_time_ms=4)),
            ]
            assert client.in_flight == 0

    def test_request_that_cannot_be_encoded_is_not_in_flight(self) -> None:
        client = ClientConnection("a")
        with pytest.raises(UnsupportedVersion):
            client.request(DescribeClusterRequest(endpoint_type=2), 0)
        assert client.in_flight == 0
        assert client.request(DescribeClusterRequest(), 0)[0] == 0

    def test_correlation_ids_stay_positive(self) -> None:
        client = ClientConnection("a")
        client._next_correlation_id = 0x7FFF_FFFF
        assert [client.request(DescribeClusterRequest(), 0)[0] for _ in range(2)] == [0x7FFF_FFFF, 0]

    def test_response_out_of_order(self) -> None:
        client = ClientConnection("a")
        client.request(DescribeClusterRequest(), 1)
        with pytest.raises(MalformedMessage, match=r"\b5\b.*\b0\b"):
            client.receive(frame(b"\0\0\0\5\0"))

    def test_unexpected_response_is_malformed(self) -> None:
        with pytest.raises(MalformedMessage, match="response 5"):
            ClientConnection("a").receive(frame(b"\0\0\0\5\0"))

    def test_every_prefix_of_a_response_is_malformed(self) -> None:
        payload = b"\0\0\0\0\0" + encode(reply(), 1)
        for length in range(len(payload)):
            client = ClientConnection("a")
            client.request(DescribeClusterRequest(), 1)
            with pytest.raises(MalformedMessage):
                client.receive(frame(payload[:length]))

    def test_tagged_fields_of_the_header_are_skipped(self) -> None:
        client = ClientConnection("a")
        client.request(DescribeClusterRequest(), 1)
        data = bytes.fromhex("00000000 01 05 02 abcd") + encode(reply(), 1)
        assert client.receive(frame(data)) == [(0, reply())]

    def test_response_above_the_ceiling(self) -> None:
        with pytest.raises(MalformedMessage, match="frame size 1000"):
            ClientConnection("a", 999).receive((1000).to_bytes(4, "big"))


class TestHandshake:
    RANGES = [ApiVersion(18, 0, 4), ApiVersion(60, 0, 1)]

    @staticmethod
    def begun() -> tuple[ClientConnection, Handshake, bytes]:
        client = ClientConnection("a")
        handshake = Handshake(client)
        return client, handshake, handshake.begin()

    def test_records_the_version_ranges_of_a_server(self) -> None:
        client, handshake, data = self.begun()
        connection = server()
        (request,) = connection.receive(data)
        assert request.api_version == 5
        assert request.message.client_software_name == "quorumd"  # type: ignore[attr-defined]  # of its class
        connection.respond(request, ApiVersionsResponse(0, self.RANGES))
        ((_, response),) = client.receive(connection.take_output())
        assert handshake.handle_response(response) is None
        assert handshake.peer_ranges == {18: (0, 4), 60: (0, 1)}

    def test_falls_back_to_versions_of_an_older_server(self) -> None:
        client, handshake, data = self.begun()
        older = ServerConnection(LIMIT, {18: (0, 2), 60: (0, 1)})
        assert older.receive(data) == []
        ((_, response),) = client.receive(older.take_output())
        again = handshake.handle_response(response)
        assert again is not None
        assert handshake.peer_ranges == {}
        (request,) = older.receive(again)
        assert request.api_version == 2
        older.respond(request, ApiVersionsResponse(0, self.RANGES))
        ((_, response),) = client.receive(older.take_output())
        assert handshake.handle_response(response) is None
        assert handshake.peer_ranges == {18: (0, 4), 60: (0, 1)}

    def test_falls_back_to_version_0_without_any_ranges(self) -> None:
        """As brokers before 2.4 respond."""
        client, handshake, _ = self.begun()
        ((_, response),) = client.receive(frame(bytes.fromhex("00000000 0023 00000000")))
        again = handshake.handle_response(response)
        assert again == request_bytes(ApiVersionsRequest(), 0, 1, "a")

    def test_ends_when_no_version_is_common(self) -> None:
        client, handshake, _ = self.begun()
        data = bytes.fromhex("00000000 0023 00000001 001200060007")
        ((_, response),) = client.receive(frame(data))
        with pytest.raises(UnsupportedVersion, match=r"ApiVersions v6 to v7 .*v5"):
            handshake.handle_response(response)

    def test_ends_with_a_server_that_refuses_every_version(self) -> None:
        client, handshake, _ = self.begun()
        refusal = bytes.fromhex("0023 00000001 001200000005")
        for correlation_id in range(5):
            ((_, response),) = client.receive(frame(correlation_id.to_bytes(4, "big") + refusal))
            assert handshake.handle_response(response) is not None
        ((_, response),) = client.receive(frame(b"\0\0\0\5" + refusal))
        with pytest.raises(UnsupportedVersion, match="rejects v0"):
            handshake.handle_response(response)

    def test_another_error_or_response_ends_it(self) -> None:
        _, handshake, _ = self.begun()
        with pytest.raises(MalformedMessage, match="UNKNOWN_SERVER_ERROR"):
            handshake.handle_response(ApiVersionsResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
        with pytest.raises(MalformedMessage, match="DescribeClusterResponse"):
            handshake.handle_response(reply())


@pytest.mark.parametrize(
    ("ranges", "version"),
    [
        ({60: (0, 1)}, 1),
        ({60: (0, 99)}, 2),
        ({60: (2, 2)}, 2),
        ({60: (3, 4)}, None),
        ({60: (1, 0)}, None),
        ({}, None),
    ],
)
def test_highest_common_version(ranges: dict[int, tuple[int, int]], version: int | None) -> None:
    assert choose_version(ApiKey.DESCRIBE_CLUSTER, ranges) == version


def test_unknown_api_has_no_common_version() -> None:
    with pytest.raises(UnsupportedVersion, match="999"):
        choose_version(999, {999: (0, 1)})


def test_requests_before_a_malformed_one_are_returned() -> None:
    connection = server()
    malformed = frame(bytes.fromhex("003c 0001 00000005 0001 61 00 ff"))
    (request,) = connection.receive(request_bytes(DescribeClusterRequest(), 1, 4) + malformed)
    assert request.correlation_id == 4
    assert connection.fault is not None
    with pytest.raises(MalformedMessage):
        connection.receive(b"")


def test_too_large_requests_are_rejected_even_where_the_response_has_no_text() -> None:
    wire = alter_partition_request
    connection = ServerConnection(8 * LIMIT, {ApiKey.ALTER_PARTITION: (2, 3)})
    large = wire.AlterPartitionRequest(1, 1, [wire.TopicData("")] * 400_000)
    assert connection.receive(request_bytes(large, 3, 7)) == []
    refusal = decode(AlterPartitionResponse, 3, connection.take_output(), 9)
    assert refusal.error_code == ErrorCode.INVALID_REQUEST
