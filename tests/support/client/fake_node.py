"""A scripted node on loopback: answers as it is told, over the server side of the real protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.connection import Request, ServerConnection, VersionRanges
from quorumd.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from quorumd.protocol.wire import Message

ALL_APIS = {key: (api.min_version, api.max_version) for key, api in APIS.items()}

Script = Callable[[Request], Message | None]
"""The answer to one request; None leaves it unanswered, ConnectionError closes the connection."""


class ByteServer:
    """Listens on loopback and talks to every connection by `talk`; leaves nothing behind when it is left."""

    def __init__(self, talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self.address = ("127.0.0.1", 0)
        self.connections = 0
        self._talk = talk
        self._writers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = (host, port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Accept no more and cut what is connected. Harmless twice."""
        self._server.close()
        self.cut()
        await asyncio.gather(*self._writers)
        await self._server.wait_closed()

    def cut(self) -> None:
        for writer in self._writers.values():
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections += 1
        self._writers[task] = writer
        try:
            await self._talk(reader, writer)
        except ConnectionError:
            pass
        finally:
            del self._writers[task]
            writer.close()


class FakeNode(ByteServer):
    """Answers ApiVersions by itself and everything else by `script`, which a test may exchange."""

    def __init__(self, script: Script, spoken: VersionRanges | None = None) -> None:
        super().__init__(self._answer_requests)
        self.script = script
        self.spoken = ALL_APIS if spoken is None else spoken
        self.requests: list[Request] = []
        self.pieces = 0
        """How often bytes arrived."""

    async def _answer_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = ServerConnection(1 << 20, self.spoken)
        while data := await reader.read(65536):
            self.pieces += 1
            for request in connection.receive(data):
                answer = self._answer(request)
                if answer is not None:
                    connection.respond(request, answer)
            writer.write(connection.take_output())

    def _answer(self, request: Request) -> Message | None:
        if request.api_key == ApiKey.API_VERSIONS:
            ranges = [ApiVersion(key, low, high) for key, (low, high) in self.spoken.items()]
            return ApiVersionsResponse(0, ranges)
        self.requests.append(request)
        return self.script(request)
