"""One direction of a simulated connection: bytes in order, fragmented, delayed, stalled, or lost.

A stream guarantees only what TCP does: the received bytes are a prefix of the written ones. While the path is
blocked the bytes wait, as for a retransmission, and arrive once it is open, even if the writer has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Protocol

from quorumd.errors import StorageError
from quorumd.ports import ANONYMOUS, Connection
from quorumd.protocol.output_buffer import Part, whole

if TYPE_CHECKING:
    from quorumd.simulator.environment.event_heap import EventHeap, Process
    from quorumd.simulator.environment.network import SimulatedNetwork

WINDOW_BYTES = 256 * 1024
"""Capacity of the network per direction; the rest is `unsent_bytes` of the writer."""

REMEMBERED_WRITES = 64
"""Number of recent writes per connection that can be replayed, see `faults`."""

RETRANSMISSION_MS = 400.0

Arrival = bytes | Callable[[], None]
"""Data, or the callback at the other end of a stream that ends."""


class Tap(Protocol):
    """An observer of the traffic."""

    def written(self, side: Side, data: bytes, *, connected: bool) -> None:
        """Record written data; `connected` is true if `side` opened the connection."""

    def arrived(self, sender: Side, length: int) -> None:
        """Record that this many bytes of `sender` were received."""


class Side:
    """One end of a connection: the Transport of its user, and the delivery of data to that user."""

    __slots__ = ("_network", "closing", "connection", "far", "host", "incoming", "open", "paused", "peer",
                 "process", "remembered", "stream")  # fmt: skip

    def __init__(
        self, network: SimulatedNetwork, host: str, peer: str, process: Process | None, connection: Connection
    ) -> None:
        self._network = network
        self.host = host
        self.peer = peer
        self.process = process
        self.connection = connection
        self.open = True
        self.closing = False
        self.paused = False
        self.incoming = bytearray()
        """Data that arrived while reading was paused."""
        self.remembered: deque[bytes] = deque(maxlen=REMEMBERED_WRITES)
        self.stream: Stream
        self.far: Side

    # ---- the Transport port

    @property
    def principal(self) -> str:
        return self._network.principals.get(self.peer.rpartition(":")[0], ANONYMOUS)

    def write(self, data: bytes) -> None:
        if self.usable and data:
            data = bytes(data)
            self.remembered.append(data)
            self.charge(len(data), 0)
            tap = self._network.tap
            if tap is not None:
                tap.written(self, data, connected=self in self._network.links)
            if self._network.on_write is not None:
                self._network.on_write(self, data)
            self.stream.write(data)

    def write_parts(self, parts: Sequence[Part]) -> None:
        """See `ports.Transport`. Stored bytes are read immediately: later the bytes are the same, or the connection
        is aborted."""
        try:
            data = b"".join([whole(part) for part in parts])
        except StorageError:
            self.abort()
        else:
            self.write(data)

    def close(self) -> None:
        if self.open and not self.closing:
            self.closing = True
            self.stream.finish()

    def abort(self) -> None:
        """See `ports.Transport`."""
        if self.open and not self.closing:
            self.stream.abandon()
            self.close()

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        if self.paused:
            self.paused = False
            self._network.heap.call_later(0.0, self.deliver_incoming, b"resume", self.process)

    def reserve_for_host(self) -> None:
        """See `ports.Transport`. Simulated hosts have no limits."""

    @property
    def unsent_bytes(self) -> int:
        return self.stream.unsent_bytes

    @property
    def held_bytes(self) -> int:
        """See `ports.Transport`."""
        return self.stream.unsent_bytes

    def call_when_sent(self, callback: Callable[[], None]) -> None:
        """See `ports.Transport`."""
        self.stream.call_when_sent(callback)

    # ---- called by the network

    @property
    def usable(self) -> bool:
        """Whether the receiving process is alive and the connection open."""
        return self.open and not self.closing and (self.process is None or self.process.alive)

    def charge(self, length: int, calls: int) -> None:
        """Let its process take the time to send or receive data, within its callback."""
        process, heap = self.process, self._network.heap
        if process is not None and process is heap.touched and (process.byte_ms or process.request_ms):
            heap.transfer(process, length, calls)

    def deliver_incoming(self) -> None:
        if self.usable and not self.paused and self.incoming:
            data = bytes(self.incoming)
            self.incoming.clear()
            self.far.stream.taken(len(data))
            self._network.arrived(self.far.host, self.host)
            self._network.heap.touched = self.process
            self.charge(len(data), 1)
            self.connection.received(data)

    def end(self, reason: str) -> None:
        """End the connection for this side; its user is notified once."""
        if self.open:
            self.open = False
            self.stream.abandon()
            self._network.forget(self)
            if self.process is None or self.process.alive:
                self._network.heap.touched = self.process
                self.connection.closed(reason, False)


class Stream:
    """The bytes from `sender` to `receiver`."""

    __slots__ = (
        "_finishing",
        "_flight",
        "_heap",
        "_in_flight",
        "_last_arrival",
        "_network",
        "_on_sent",
        "_stalled",
        "_unsent",
        "delay_ms",
        "receiver",
        "sender",
        "unsent_bytes",
    )  # fmt: skip

    def __init__(self, network: SimulatedNetwork, sender: Side, receiver: Side, delay_ms: float) -> None:
        self.sender = sender
        self.receiver = receiver
        self.delay_ms = delay_ms
        """Additional latency, for a slow connection."""
        self.unsent_bytes = 0
        self._network = network
        self._heap: EventHeap = network.heap
        self._unsent: deque[bytes] = deque()
        self._flight: deque[tuple[float, Arrival]] = deque()
        """Arrivals in order, with their times; each has an event on the heap."""
        self._in_flight = 0
        """Bytes held by the network."""
        self._last_arrival = 0.0
        self._stalled: deque[Arrival] = deque()
        self._finishing = False
        self._on_sent: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        self._unsent.append(data)
        self.unsent_bytes += len(data)
        self._pump()

    def call_when_sent(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the network has accepted all written bytes."""
        self._on_sent = callback
        self._pump()

    @property
    def bytes_in_flight(self) -> int:
        """Return the number of written bytes that the receiver will still receive unless it ends."""
        return self._in_flight - len(self.receiver.incoming) + self.unsent_bytes

    @property
    def oldest_unread_ms(self) -> float:
        """Return the arrival time of the oldest unread data, inf if there is none or the path is blocked."""
        is_on_its_way = self._flight and not self._stalled
        return self._flight[0][0] if is_on_its_way else inf

    def finish(self) -> None:
        """Send the queued data, then the end of the stream."""
        self._finishing = True
        self._pump()

    def abandon(self) -> None:
        """Drop the data that the network has not accepted yet."""
        self._unsent.clear()
        self.unsent_bytes = 0
        self._on_sent = None

    def reset(self) -> None:
        """Reset the connection of the receiver, after the data in flight, because the sender is gone."""
        self.abandon()
        self._launch(self._arrive_reset, b"reset")

    def taken(self, length: int) -> None:
        """Release the capacity that received bytes have used."""
        self._in_flight -= length
        if self._unsent:
            self._pump()

    def path_opened(self) -> None:
        """Deliver waiting data in order at the next retransmission, after the path was unblocked."""
        if self._stalled:
            self._heap.call_later(
                self._network.random.random() * RETRANSMISSION_MS,
                self._retransmit,
                b"again",
                runs_on=self.receiver.process,
            )

    def delay_until(self, time_ms: float) -> None:
        """Delay all arrivals until this time."""
        self._last_arrival = max(self._last_arrival, time_ms)

    def _retransmit(self) -> None:
        # Later arrivals have queued up behind this one, which keeps the order.
        while self._stalled:
            if not self._network.is_reachable(self.sender.host, self.receiver.host):
                self._network.wait_for_path(self)
                return
            self._receive(self._stalled.popleft())

    def _pump(self) -> None:
        unsent, random, conditions = self._unsent, self._network.random, self._network.conditions
        while unsent and self._in_flight < WINDOW_BYTES:
            data = unsent.popleft()
            length = len(data)
            if length > 1 and random.random() < conditions.split_probability:
                length = random.randrange(1, length)
                unsent.appendleft(data[length:])
                data = data[:length]
            self.unsent_bytes -= length
            self._in_flight += length
            self._launch(data, b"data", data)
        if self._on_sent is not None and not unsent:
            self._heap.call_later(0.0, self._on_sent, b"sent", self.sender.process)
            self._on_sent = None
        if self._finishing and not unsent:
            self._finishing = False
            self._launch(self._arrive_end, b"end")
            self._heap.call_later(0.0, lambda: self.sender.end(""), b"closed", self.sender.process)

    def _launch(self, arrival: Arrival, kind: bytes, payload: bytes = b"") -> None:
        heap, network = self._heap, self._network
        at_ms = heap.now_ms + network.conditions.latency(network.random) + self.delay_ms
        if at_ms < self._last_arrival:
            at_ms = self._last_arrival
        self._last_arrival = at_ms
        self._flight.append((at_ms, arrival))
        heap.call_at(at_ms, self._arrive, kind, None, payload, self.receiver.process)

    def _arrive(self) -> None:
        """Handle the next arrival."""
        _, arrival = self._flight.popleft()
        if self._stalled or not self._network.is_reachable(self.sender.host, self.receiver.host):
            self._stalled.append(arrival)
            self._network.wait_for_path(self)
        else:
            self._receive(arrival)

    def _receive(self, arrival: Arrival) -> None:
        if not isinstance(arrival, bytes):
            arrival()
            return
        data = arrival
        receiver = self.receiver
        if not receiver.usable:
            if self.sender.open:
                receiver.stream.reset()
            return
        if self._network.tap is not None:
            self._network.tap.arrived(self.sender, len(data))
        if receiver.paused or receiver.incoming:
            receiver.incoming += data
            return
        self.taken(len(data))
        self._network.arrived(self.sender.host, receiver.host)
        self._heap.touched = receiver.process
        receiver.charge(len(data), 1)
        receiver.connection.received(data)

    def _arrive_end(self) -> None:
        self.receiver.deliver_incoming()
        self.receiver.end("")

    def _arrive_reset(self) -> None:
        self.receiver.end("connection reset by peer")
