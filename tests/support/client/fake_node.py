"""A scripted node on loopback, over the server side of the real protocol."""

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
"""Returns the response to a request, None for no response. A ConnectionError closes the connection."""


class ByteServer:
    """Listens on loopback and serves every connection with `talk`. Closes all connections on exit."""

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
        """Stop listening and close all connections. Idempotent."""
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
    """Responds to ApiVersions by itself and to other requests with `script`, which a test may replace."""

    def __init__(self, script: Script, supported_versions: VersionRanges | None = None) -> None:
        super().__init__(self._respond_to_all)
        self.script = script
        self.supported_versions = ALL_APIS if supported_versions is None else supported_versions
        self.requests: list[Request] = []
        self.pieces = 0
        """Number of reads that returned bytes."""

    async def _respond_to_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = ServerConnection(1 << 20, self.supported_versions)
        while data := await reader.read(65536):
            self.pieces += 1
            for request in connection.receive(data):
                response = self._response_to(request)
                if response is not None:
                    connection.respond(request, response)
            writer.write(connection.take_output())

    def _response_to(self, request: Request) -> Message | None:
        if request.api_key == ApiKey.API_VERSIONS:
            ranges = [ApiVersion(key, low, high) for key, (low, high) in self.supported_versions.items()]
            return ApiVersionsResponse(0, ranges)
        self.requests.append(request)
        return self.script(request)
