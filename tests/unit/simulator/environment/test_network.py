"""The simulated network guarantees what TCP does, and nothing else."""

from random import Random

import pytest

from quorumd.errors import StorageError
from quorumd.ports import Transport
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.environment.link_conditions import LinkConditions
from quorumd.simulator.environment.network import SimulatedNetwork
from quorumd.simulator.environment.stream import WINDOW_BYTES
from tests.support.node.virtual_time import VirtualTime

SEEDS = range(30)


class End:
    """A connection that records its callbacks."""

    def __init__(self, greeting: bytes = b"") -> None:
        self.greeting = greeting
        self.transport: Transport | None = None
        self.data = bytearray()
        self.pieces = 0
        self.closings: list[tuple[str, bool]] = []

    def connected(self, transport: Transport) -> None:
        assert self.transport is None
        self.transport = transport
        if self.greeting:
            transport.write(self.greeting)

    def received(self, data: bytes) -> None:
        assert self.transport is not None
        assert not self.closings
        self.pieces += 1
        self.data += data

    def closed(self, reason: str, refused: bool) -> None:
        self.closings.append((reason, refused))


class TwoHosts:
    """Host a, from which `connect` connects to host b, which records what it accepts."""

    def __init__(self, seed: int = 0, conditions: LinkConditions | None = None) -> None:
        self.time = VirtualTime()
        self.network = SimulatedNetwork(self.time.heap, Random(seed), conditions)
        self.server_process = Process("b", 2, 1)
        self.server = self.network.host("b", self.server_process)
        self.client = self.network.host("a", Process("a", 1, 1))
        self.accepted: list[End] = []
        self.listener = self.server.listen("b", 9092, self.accept)

    def accept(self) -> End:
        self.accepted.append(End())
        return self.accepted[-1]

    def run(self, duration_ms: float = 30_000.0) -> None:
        self.time.pass_ms(duration_ms)

    def connect(self, greeting: bytes = b"") -> End:
        end = End(greeting)
        self.client.connect("b", 9092, end)
        return end


def transport_of(end: End) -> Transport:
    assert end.transport is not None
    return end.transport


def test_bytes_arrive_in_order_however_they_are_cut_and_delayed() -> None:
    for seed in SEEDS:
        hosts = TwoHosts(seed, LinkConditions(slow_probability=0.3, split_probability=0.5))
        near = hosts.connect()
        hosts.run(1000.0)
        sent = Random(seed).randbytes(3000)
        for at in range(0, 3000, 100):
            transport_of(near).write(sent[at : at + 100])
        hosts.run()
        assert bytes(hosts.accepted[0].data) == sent
        assert hosts.accepted[0].pieces > 30


def test_both_directions_work_and_a_close_is_orderly_after_all_bytes() -> None:
    hosts = TwoHosts()
    near = hosts.connect(greeting=b"question")
    hosts.run(1000.0)
    far = transport_of(hosts.accepted[0])
    far.write(b"answer")
    far.close()
    far.write(b"too late")
    hosts.run()
    assert bytes(near.data) == b"answer"
    assert near.closings == [("", False)]
    assert hosts.accepted[0].closings == [("", False)]
    assert hosts.network.links == {}


def test_connection_without_a_listener_is_refused() -> None:
    hosts = TwoHosts()
    hosts.listener.close()
    near = hosts.connect()
    hosts.run()
    assert near.closings == [("connection refused", True)]


def test_connection_to_a_machine_without_power_times_out() -> None:
    hosts = TwoHosts()
    hosts.server_process.alive = False
    hosts.network.process_ended(hosts.server_process, silently=True)
    hosts.network.power_off("b")
    near = hosts.connect()
    hosts.run()
    assert near.closings == [("timed out", False)]


def test_connection_over_a_blocked_path_times_out_or_is_retried() -> None:
    for direction in (("a", "b"), ("b", "a")):
        hosts = TwoHosts()
        hosts.network.block(*direction)
        near = hosts.connect()
        hosts.run()
        assert near.closings == [("timed out", False)]
        assert near.transport is None

    hosts = TwoHosts()
    hosts.network.block("a", "b")
    near = hosts.connect()
    hosts.run(2000.0)
    hosts.network.heal()
    hosts.run()
    assert near.transport is not None
    assert near.closings == []


def test_one_way_partition_stalls_one_direction_in_order_and_loses_nothing() -> None:
    for seed in SEEDS:
        hosts = TwoHosts(seed)
        near = hosts.connect()
        hosts.run(1000.0)
        far = hosts.accepted[0]
        transport_of(near).write(b"0")
        hosts.network.block("a", "b")
        for piece in (b"1", b"2", b"3"):
            transport_of(near).write(piece)
        transport_of(far).write(b"other way")
        hosts.run(5000.0)
        assert bytes(near.data) == b"other way"
        assert bytes(far.data) == b""
        hosts.network.unblock("a", "b")
        transport_of(near).write(b"4")
        hosts.run(5.0)
        transport_of(near).write(b"5")
        hosts.run()
        assert bytes(far.data) == b"012345"
        assert near.closings == far.closings == []


def test_blocks_of_several_faults_add_up() -> None:
    hosts = TwoHosts()
    hosts.network.block("a", "b")
    hosts.network.block("a", "b")
    hosts.network.unblock("a", "b")
    assert not hosts.network.is_reachable("a", "b")
    hosts.network.unblock("a", "b")
    assert hosts.network.is_reachable("a", "b")


def test_killed_process_resets_its_connections_after_data_in_flight() -> None:
    hosts = TwoHosts()
    near = hosts.connect()
    hosts.run(1000.0)
    transport_of(hosts.accepted[0]).write(b"last words")
    hosts.server_process.alive = False
    hosts.network.process_ended(hosts.server_process)
    hosts.run()
    assert bytes(near.data) == b"last words"
    assert near.closings == [("connection reset by peer", False)]
    refused = hosts.connect()
    hosts.run()
    assert refused.closings == [("connection refused", True)]


def test_power_loss_is_detected_by_a_write_after_the_restart() -> None:
    hosts = TwoHosts()
    near = hosts.connect()
    idle = hosts.connect()
    hosts.run(1000.0)
    hosts.server_process.alive = False
    hosts.network.process_ended(hosts.server_process, silently=True)
    hosts.network.power_off("b")
    transport_of(near).write(b"anybody there?")
    hosts.run(20_000.0)
    assert near.closings == []
    hosts.network.power_on("b")
    hosts.run()
    assert near.closings == [("connection reset by peer", False)]
    assert idle.closings == []


def test_bytes_of_an_ended_writer_arrive_once_the_path_is_open() -> None:
    hosts = TwoHosts()
    near = hosts.connect()
    hosts.run(1000.0)
    hosts.network.block("a", "b")
    transport_of(near).write(b"late")
    transport_of(near).close()
    hosts.run(10_000.0)
    assert near.closings == [("", False)]
    hosts.network.heal()
    hosts.run()
    assert bytes(hosts.accepted[0].data) == b"late"
    assert hosts.accepted[0].closings == [("", False)]


def test_reader_that_pauses_makes_the_writer_wait() -> None:
    hosts = TwoHosts()
    near = hosts.connect()
    hosts.run(1000.0)
    far = hosts.accepted[0]
    transport_of(far).pause_reading()
    block = bytes(WINDOW_BYTES // 4)
    for _ in range(10):
        transport_of(near).write(block)
    hosts.run(5000.0)
    assert transport_of(near).unsent_bytes >= 5 * len(block)
    assert len(far.data) == 0
    unsent: list[int] = []
    transport_of(near).call_when_sent(lambda: unsent.append(transport_of(near).unsent_bytes))
    hosts.run(5000.0)
    assert unsent == []
    transport_of(far).resume_reading()
    hosts.run()
    assert unsent == [0]
    assert len(far.data) == 10 * len(block)


class Stored:
    """Satisfies `ports.StoredBytes`."""

    def __init__(self, content: bytes | None) -> None:
        self.content = content

    def __len__(self) -> int:
        return 6

    def read(self, position: int, length: int) -> bytes:
        if self.content is None:
            raise StorageError("truncated")
        return self.content[position : position + length]


def test_stored_bytes_are_sent_in_order_and_unreadable_ones_end_the_connection() -> None:
    hosts = TwoHosts()
    near = hosts.connect()
    hosts.run(1000.0)
    transport_of(near).write_parts([b"head", Stored(b"stored"), b"tail"])
    transport_of(near).write_parts([b"head", Stored(None), b"tail"])
    hosts.run()
    assert bytes(hosts.accepted[0].data) == b"headstoredtail"
    assert hosts.accepted[0].closings == near.closings == [("", False)]


def test_broken_link_is_reported_once_to_both_ends() -> None:
    hosts = TwoHosts()
    near = hosts.connect()
    hosts.run(1000.0)
    (link,) = hosts.network.links
    hosts.network.break_link(link)
    hosts.run()
    assert near.closings == hosts.accepted[0].closings == [("connection reset by peer", False)]
    assert hosts.network.links == {}


def test_address_is_taken_once_and_port_0_takes_a_free_one() -> None:
    hosts = TwoHosts()
    with pytest.raises(OSError, match="b:9092"):
        hosts.server.listen("b", 9092, hosts.accept)
    free = hosts.server.listen("b", 0, hosts.accept)
    assert free.port not in (0, 9092)


def test_ended_process_receives_nothing() -> None:
    hosts = TwoHosts()
    near = hosts.connect(greeting=b"x")
    hosts.run(1000.0)
    hosts.server_process.alive = False
    hosts.network.process_ended(hosts.server_process, silently=True)
    transport_of(near).write(b"y")
    hosts.run()
    assert bytes(hosts.accepted[0].data) == b"x"
    assert hosts.accepted[0].closings == []


def test_aborted_connection_loses_what_the_network_has_not_accepted() -> None:
    hosts = TwoHosts()
    client = hosts.connect()
    hosts.run()
    transport = transport_of(client)
    transport.write(bytes(2 * WINDOW_BYTES))
    transport.write(b"lost")
    assert transport.unsent_bytes == len(b"lost")
    transport.abort()
    assert transport.unsent_bytes == 0
    hosts.run()
    assert client.closings == [("", False)]
    assert len(hosts.accepted[0].data) == 2 * WINDOW_BYTES
    assert len(hosts.accepted[0].closings) == 1
