"""The network between nodes and clients: TCP proxies on loopback with faults per direction.

Each node has one proxy, whose address is in `quorum.voters` and `advertised.listeners`, so that nodes and clients
connect only through proxies. The proxy reads the client id in the first request (`quorumd-<id>` for nodes), so that
every link has two separate `Direction`s:

    direction 1 -> 2    requests of node 1 to node 2, and responses of node 1 to requests of node 2

A direction is open, slow (data is delayed), stalled (data is held until the link heals), deaf (data is dropped;
connections that lost data are reset when the link heals, since a stream cannot lose bytes), or cut (existing and new
connections are reset at once).
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from enum import Enum
from threading import Thread
from typing import Any, NamedTuple

import uvloop

PIECE_BYTES = 65_536
FRONT = struct.Struct(">ihhih")
"""The start of a request frame: size, API key, version, correlation id, and length of the client id that follows."""
PATIENCE_S = 60.0
"""Timeout of the first request on a new connection, and of changes of the links."""


class State(Enum):
    """The state of a direction."""

    OPEN = "open"
    SLOW = "slow"
    STALLED = "stalled"
    DEAF = "deaf"
    CUT = "cut"


class Way(NamedTuple):
    """The direction from `source` to `target`; parties are node ids as text, and client ids."""

    source: str
    target: str


class Direction:
    """The state of a way, and the pipes that use it. It is used only in the thread of the proxies."""

    def __init__(self) -> None:
        self.state = State.OPEN
        self.delay_s = 0.0
        self.passing = asyncio.Event()
        self.passing.set()
        self.pipes: set[Pipe] = set()

    def become(self, state: State, delay_s: float = 0.0) -> None:
        """Change the state, and reset the connections that the change breaks."""
        if self.state is State.DEAF and state is not State.DEAF:
            for pipe in tuple(self.pipes):
                if pipe.has_lost:
                    pipe.reset()
        self.state, self.delay_s = state, delay_s
        if state is State.STALLED:
            self.passing.clear()
        else:
            self.passing.set()
        if state is State.CUT:
            for pipe in tuple(self.pipes):
                pipe.reset()


class Pipe:
    """One direction of one connection: copies bytes from `reader` to `writer`."""

    def __init__(
        self,
        direction: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        reset: Callable[[], None],
    ) -> None:
        self.direction = direction
        self.has_lost = False
        self._reader = reader
        self._writer = writer
        self.reset = reset

    async def run(self, first: bytes = b"") -> None:
        """Copy until one end closes; `first` has already been read."""
        try:
            if first:
                await self._pass_on(first)
            while data := await self._reader.read(PIECE_BYTES):
                await self._pass_on(data)
            await self.direction.passing.wait()
            if not self.has_lost and not self._writer.is_closing():
                self._writer.write_eof()
        except OSError:
            self.reset()

    async def _pass_on(self, data: bytes) -> None:
        if self.direction.state is State.SLOW:
            await asyncio.sleep(self.direction.delay_s)
        await self.direction.passing.wait()
        if self.direction.state is State.DEAF or self.has_lost:
            self.has_lost = True
        elif self.direction.state is State.CUT or self._writer.is_closing():
            # The other end closed while this chunk was held.
            self.reset()
        else:
            self._writer.write(data)
            await self._writer.drain()


class Links:
    """All proxies, which run in a separate thread. Methods may be called from any other thread."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._directions: defaultdict[Way, Direction] = defaultdict(Direction)
        self._servers: dict[str, asyncio.Server] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()

    def open_front(self, node: str, port: int, behind: int) -> None:
        """Open the proxy of a node: listen on `port`, and connect to the node's port `behind`."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._connected(node, behind, reader, writer)

        async def start() -> None:
            self._servers[node] = await asyncio.start_server(serve, "127.0.0.1", port)

        self._run(start())

    def close_front(self, node: str) -> None:
        """Refuse new connections, like the host of a dead process; existing ones end with the process."""

        async def stop() -> None:
            self._servers.pop(node).close()

        if node in self._servers:
            self._run(stop())

    def hurt(self, ways: Iterable[Way], state: State, delay_s: float = 0.0) -> None:
        """Set the state of some directions."""

        async def change() -> None:
            for way in ways:
                self._directions[way].become(state, delay_s)

        self._run(change())

    def heal(self) -> None:
        """Open all directions."""

        async def change() -> None:
            for direction in self._directions.values():
                direction.become(State.OPEN)

        self._run(change())

    def parties(self) -> set[str]:
        """Return all parties that have connected so far, or whose links have had faults."""
        return {party for way in tuple(self._directions) for party in way}

    def stop(self) -> None:
        """Reset all connections and end the thread."""

        async def end() -> None:
            for server in self._servers.values():
                server.close()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self._run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _connected(
        self, node: str, behind: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one connection from its first bytes to its end."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        back: asyncio.StreamWriter | None = None
        pipes: tuple[Pipe, ...] = ()
        try:
            who, first = await asyncio.wait_for(_who(reader), PATIENCE_S)
            requests, responses = self._directions[Way(who, node)], self._directions[Way(node, who)]
            if State.CUT in (requests.state, responses.state):
                return
            back_reader, back = await asyncio.open_connection("127.0.0.1", behind)
            ends = (writer.transport, back.transport)

            def reset() -> None:
                for end in ends:
                    end.abort()

            pipes = (Pipe(requests, reader, back, reset), Pipe(responses, back_reader, writer, reset))
            for pipe in pipes:
                pipe.direction.pipes.add(pipe)
            await asyncio.gather(pipes[0].run(first), pipes[1].run())
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one end closed, or `stop` was called
        finally:
            self._tasks.discard(task)
            for pipe in pipes:
                pipe.direction.pipes.discard(pipe)
            for end in (writer, back):
                if end is not None:
                    end.close()


async def _who(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """Read the client id from the first request, and return it with the bytes read."""
    front = await reader.readexactly(FRONT.size)
    *_, length = FRONT.unpack(front)
    name = await reader.readexactly(max(length, 0))
    return name.decode().removeprefix("quorumd-"), front + name
