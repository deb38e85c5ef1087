"""The Network port between simulated machines: latency, blocked paths, refused connections, machines without power.

A path is directed: blocking a -> b leaves b -> a open. A blocked path silently delays everything; no errors are
reported. A connection to a running machine without a listener is refused; one to a machine without power times out.
Connections of a killed process are reset. After a power loss they are not: peers detect the loss when they write to
the machine after it has restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from errno import EADDRINUSE
from functools import partial
from math import inf
from random import Random

from quorumd.ports import Connection, Transport
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.environment.link_conditions import LinkConditions
from quorumd.simulator.environment.stream import Side, Stream, Tap

CONNECT_ATTEMPTS_MS = (0.0, 1000.0, 3000.0)
"""Times at which a connection attempt without a response is repeated, as TCP repeats its SYN."""
CONNECT_TIMEOUT_MS = 7000.0


class SimulatedListener:
    """The Listener port. `process` accepts connections until it ends."""

    def __init__(
        self, network: SimulatedNetwork, address: tuple[str, int], process: Process | None,
        accept: Callable[[], Connection],
    ) -> None:  # fmt: skip
        self._network = network
        self._address = address
        self.process = process
        self.accept = accept

    @property
    def port(self) -> int:
        return self._address[1]

    def close(self) -> None:
        self._network.stop_listening(self._address, self)


class Host:
    """The Network port of one process on one machine."""

    def __init__(self, network: SimulatedNetwork, name: str, process: Process | None) -> None:
        self._network = network
        self._name = name
        self._process = process
        self.delay_ms = 0.0
        """Additional latency of future connections."""

    def listen(
        self, host: str, port: int, accept: Callable[[], Connection], listener: str = ""
    ) -> SimulatedListener:
        return self._network.listen((self._name, port), self._process, accept)

    def connect(self, host: str, port: int, connection: Connection, listener: str = "") -> None:
        if self._process is None or self._process.alive:
            connection = self._network.wrap(connection, self._process, host)
            self._network.connect(self._name, self._process, (host, port), connection, self.delay_ms)


def _unchanged(connection: Connection, process: Process | None, host: str) -> Connection:
    return connection


class SimulatedNetwork:
    """All machines, their connections and network faults."""

    def __init__(self, heap: EventHeap, random: Random, conditions: LinkConditions | None = None) -> None:
        self.heap = heap
        self.random = random
        self.conditions = conditions or LinkConditions()
        self.links: dict[Side, None] = {}
        """The connecting side of every established connection, oldest first."""
        self._listeners: dict[tuple[str, int], SimulatedListener] = {}
        self._blocked: dict[tuple[str, str], int] = {}
        self._without_power: dict[str, None] = {}
        self._waiting: dict[Stream, None] = {}
        self._next_port = 40_000
        self.wrap: Callable[[Connection, Process | None, str], Connection] = _unchanged
        """Wraps each connection that a process opens to a host."""
        self.principals: dict[str, str] = {}
        """The principal of connections from a host, if it is not anonymous."""
        self._last_arrivals: dict[tuple[str, str], float] = {}
        """Time of the last arrival, by machines of sender and receiver."""
        self.tap: Tap | None = None
        """Observer of the traffic, if set."""
        self.on_write: Callable[[Side, bytes], None] | None = None
        """Called with all written data, if set."""

    def host(self, name: str, process: Process | None = None) -> Host:
        """Create the Network port of a process on a machine, whose name is its address."""
        return Host(self, name, process)

    # ---- faults

    def block(self, source: str, target: str) -> None:
        """Block the path from `source` to `target` until `unblock`; blocks of several faults are counted."""
        self._blocked[source, target] = self._blocked.get((source, target), 0) + 1

    def unblock(self, source: str, target: str) -> None:
        count = self._blocked.pop((source, target), 0)
        if count > 1:
            self._blocked[source, target] = count - 1
        else:
            self._retry_waiting()

    def blocked_paths(self) -> list[tuple[str, str]]:
        return list(self._blocked)

    def heal(self) -> None:
        """Unblock every path."""
        self._blocked.clear()
        self._retry_waiting()

    def power_off(self, host: str) -> None:
        """Disconnect a machine without power; its processes must have ended."""
        self._without_power[host] = None
        self._listeners = {at: one for at, one in self._listeners.items() if at[0] != host}

    def power_on(self, host: str) -> None:
        self._without_power.pop(host, None)
        self._retry_waiting()

    def process_ended(self, process: Process, *, silently: bool = False) -> None:
        """Close the connections of an ended process, as a kernel does; `silently` if the machine lost power."""
        self._listeners = {at: one for at, one in self._listeners.items() if one.process is not process}
        for side in self.sides():
            if side.process is process:
                side.open = False
                side.stream.abandon()
                if not silently:
                    side.stream.reset()
                self._forget_if_closed(side)

    def break_link(self, side: Side) -> None:
        """Reset a connection at both ends; bytes in flight may be lost."""
        for one in (side, side.far):
            self.heap.call_later(
                self.conditions.latency(self.random),
                partial(one.end, "connection reset by peer"),
                b"broken",
                runs_on=one.process,
            )

    # ---- used by Host, streams and faults

    def sides(self) -> list[Side]:
        return [side for link in self.links for side in (link, link.far)]

    def is_reachable(self, source: str, target: str) -> bool:
        return (source, target) not in self._blocked and target not in self._without_power

    def arrived(self, source: str, target: str) -> None:
        """Record that a process on `target` has received bytes from `source`."""
        self._last_arrivals[source, target] = self.heap.now_ms

    def last_arrival_ms(self, source: str, target: str) -> float:
        """Return when `target` last received bytes from `source`, -inf for never."""
        return self._last_arrivals.get((source, target), -inf)

    def wait_for_path(self, stream: Stream) -> None:
        self._waiting[stream] = None

    def listen(
        self, address: tuple[str, int], process: Process | None, accept: Callable[[], Connection]
    ) -> SimulatedListener:
        if address[1] == 0:
            self._next_port += 1
            address = (address[0], self._next_port)
        if address in self._listeners:
            raise OSError(EADDRINUSE, f"{address[0]}:{address[1]} is used by another process")
        listener = SimulatedListener(self, address, process, accept)
        self._listeners[address] = listener
        return listener

    def stop_listening(self, address: tuple[str, int], listener: SimulatedListener) -> None:
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    def connect(
        self, host: str, process: Process | None, target: tuple[str, int], connection: Connection,
        delay_ms: float = 0.0,
    ) -> None:  # fmt: skip
        """Start to connect. `delay_ms` is additional latency of this connection."""
        attempt = Attempt(self, host, process, target, connection, delay_ms)
        for repeat_ms in CONNECT_ATTEMPTS_MS:
            latency = delay_ms + self.conditions.latency(self.random)
            self.heap.call_later(repeat_ms + latency, attempt.arrive, b"connect")
        self.heap.call_later(CONNECT_TIMEOUT_MS, attempt.time_out, b"connect timeout", runs_on=process)

    def listener_at(self, address: tuple[str, int]) -> SimulatedListener | None:
        return self._listeners.get(address)

    def forget(self, side: Side) -> None:
        self._forget_if_closed(side)

    def _forget_if_closed(self, side: Side) -> None:
        if not side.open and not side.far.open:
            self.links.pop(side, None)
            self.links.pop(side.far, None)

    def _retry_waiting(self) -> None:
        waiting: Iterable[Stream] = list(self._waiting)
        self._waiting.clear()
        for stream in waiting:
            if self.is_reachable(stream.sender.host, stream.receiver.host):
                stream.path_opened()
            else:
                self._waiting[stream] = None


class Attempt:
    """A connection attempt: established, refused or timed out."""

    def __init__(
        self, network: SimulatedNetwork, host: str, process: Process | None, target: tuple[str, int],
        connection: Connection, delay_ms: float,
    ) -> None:  # fmt: skip
        self._network = network
        self._host = host
        self._process = process
        self._target = target
        self._connection = connection
        self._delay_ms = delay_ms
        self._arrived = False
        self._over = False

    def arrive(self) -> None:
        """Handle the arrival of a SYN at the target."""
        network, target = self._network, self._target[0]
        if self._arrived or self._over or not network.is_reachable(self._host, target):
            return
        if not network.is_reachable(target, self._host):
            return  # The SYN-ACK is lost; a retry may succeed.
        listener = network.listener_at(self._target)
        accepts = listener.process if listener is not None else None
        if accepts is not None and accepts.busy_until_ms > network.heap.now_ms:
            # Wait in line for the busy process: otherwise a process that is always busy would never accept.
            network.heap.call_later(0.0, self.arrive, b"connect", runs_on=accepts)
            return
        self._arrived = True
        latency = self._delay_ms + network.conditions.latency(network.random)
        if listener is None:
            network.heap.call_later(latency, self._refuse, b"refused", self._process)
            return
        self._establish(listener, latency)

    def time_out(self) -> None:
        if not self._arrived:
            self._end("timed out", refused=False)

    def _refuse(self) -> None:
        self._end("connection refused", refused=True)

    def _end(self, reason: str, *, refused: bool) -> None:
        if not self._over and (self._process is None or self._process.alive):
            self._over = True
            self._network.heap.touched = self._process
            self._connection.closed(reason, refused)

    def _establish(self, listener: SimulatedListener, latency: float) -> None:
        network = self._network
        near = Side(
            network, self._host, f"{self._target[0]}:{self._target[1]}", self._process, self._connection
        )
        far = Side(network, self._target[0], f"{self._host}:0", listener.process, listener.accept())
        near.far, far.far = far, near
        near.stream = Stream(network, near, far, self._delay_ms)
        far.stream = Stream(network, far, near, self._delay_ms)
        far.stream.delay_until(network.heap.now_ms + latency)
        network.links[near] = None
        network.heap.touched = listener.process
        far.connection.connected(_transport(far))
        network.heap.call_later(latency, lambda: self._connected(near), b"connected", runs_on=near.process)

    def _connected(self, near: Side) -> None:
        self._over = True
        if near.usable:
            self._network.heap.touched = self._process
            self._connection.connected(_transport(near))
        elif near.open:
            near.open = False
            near.stream.reset()


def _transport(side: Side) -> Transport:
    return side
