"""Encoded messages whose large values are not copied."""

from __future__ import annotations

import pytest

from quorumd.errors import UnsupportedVersion
from quorumd.ids import KafkaUuid
from quorumd.protocol.codec import encode
from quorumd.protocol.connection import ClientConnection, Request, ServerConnection, encode_response
from quorumd.protocol.messages.fetch_request import FetchRequest
from quorumd.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from quorumd.protocol.output_buffer import LARGE_VALUE, OutputBuffer, whole

LARGE = bytes(LARGE_VALUE)
TOPIC = KafkaUuid(bytes(15) + b"t")


def receive(connection: ServerConnection, version: int, count: int = 1) -> list[Request]:
    client = ClientConnection("test")
    return connection.receive(b"".join([client.request(FetchRequest(), version)[1] for _ in range(count)]))


def fetched(version: int, *records: bytes) -> FetchResponse:
    partitions = [PartitionData(number, records=each) for number, each in enumerate(records)]
    topic = FetchableTopicResponse("" if version >= 13 else "t", TOPIC, partitions)
    return FetchResponse(responses=[topic])


class TestBuffer:
    def test_parts_are_in_order_and_not_empty(self) -> None:
        out = OutputBuffer()
        out.add_large(b"first")
        out += b"between"
        out.add_large(b"second")
        out.add_large(b"third")
        assert out.large_bytes == 16
        assert out.take_parts() == [b"first", b"between", b"second", b"third"]
        assert (out.take_parts(), out.large_bytes) == ([], 0)

    def test_parts_of_another_buffer_are_appended(self) -> None:
        out, other = OutputBuffer(), OutputBuffer()
        out += b"one"
        other += b"two"
        other.add_large(LARGE)
        other += b"three"
        out.add_parts(other.take_parts())
        assert (bytes(out), out.large_bytes) == (b"onetwothree", len(LARGE))
        parts = out.take_parts()
        assert parts == [b"onetwo", LARGE, b"three"]
        assert parts[1] is LARGE

    def test_cut_keeps_what_is_before(self) -> None:
        out = OutputBuffer()
        out += b"one"
        out.add_large(b"kept")
        length = len(out)
        out += b"two"
        out.add_large(b"removed")
        out.cut(length)
        assert (out.large_bytes, out.take()) == (4, b"onekept")


class Stored:
    """Satisfies `ports.StoredBytes`."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __len__(self) -> int:
        return len(self.content)

    def read(self, position: int, length: int) -> bytes:
        return self.content[position : position + length]


class TestConnection:
    @pytest.fixture
    def connection(self) -> ServerConnection:
        return ServerConnection(1 << 20, {1: (4, 18)})

    @pytest.mark.parametrize("version", [4, 12, 18])
    def test_sends_records_without_copying_them(self, connection: ServerConnection, version: int) -> None:
        (request,) = receive(connection, version)
        records = bytes(LARGE_VALUE + 1)
        response = fetched(version, LARGE, b"small", records)
        connection.respond(request, response)
        parts = connection.take_parts()
        assert [part for part in parts if len(part) >= LARGE_VALUE] == [LARGE, records]
        assert parts[1] is LARGE
        assert parts[3] is records
        frame = b"".join(parts)
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        assert frame[4:] == encode_response(request, response)
        assert frame.endswith(encode(response, version))

    def test_late_response_is_the_same_bytes(self, connection: ServerConnection) -> None:
        outputs = []
        for order in ((0, 1), (1, 0)):
            requests = receive(connection, 12, 2)
            for at in order:
                connection.respond(requests[at], fetched(12, LARGE))
            outputs.append(connection.take_output())
        assert outputs[0] == outputs[1]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_stored_records_are_not_read(self, connection: ServerConnection, order: tuple[int, int]) -> None:
        requests = receive(connection, 12, 2)
        stored, read = Stored(LARGE + b"!"), fetched(12, LARGE + b"!", b"small")
        response = fetched(12, b"", b"small")
        response.responses[0].partitions[0].records = stored  # type: ignore[assignment]  # as of brokers
        expected = b""
        for at in range(2):
            encoded = encode_response(requests[at], read)
            expected += len(encoded).to_bytes(4) + encoded
        for at in order:
            connection.respond(requests[at], response)
            assert connection.gathered_bytes >= len(stored) or order == (0, 1) or at == 0
        assert connection.gathered_bytes == 0
        parts = connection.take_parts()
        assert sum(part is stored for part in parts) == 2
        assert b"".join(map(whole, parts)) == expected
        assert encode_response(requests[0], response) == encode_response(requests[0], read)

    def test_response_that_cannot_be_encoded_leaves_no_large_value(
        self, connection: ServerConnection
    ) -> None:
        first, second = receive(connection, 4, 2)
        connection.respond(first, fetched(4, b"before"))
        unfit = fetched(4, LARGE, b"")
        unfit.responses[0].partitions[1].preferred_read_replica = 1
        with pytest.raises(UnsupportedVersion, match="preferred_read_replica"):
            connection.respond(second, unfit)
        output = connection.take_output()
        assert int.from_bytes(output[:4]) == len(output) - 4
        assert output.endswith(b"before")
