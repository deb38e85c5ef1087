"""Leaders that respond wrongly to the fetches and to the forwarded requests of a follower.

Responses are altered only so that a follower must notice it: they have an error, records that do not continue its
log, a truncation or a snapshot below its high watermark, other voters all at once, or bytes of a snapshot that its
checksums do not match. The follower must not apply them, and must follow a leader again. A forwarded request gets an
error, or the response to another request, which the follower must not pass on to its client.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, NamedTuple, TypeVar

from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.node.wire.voter_records import encode_control_records
from quorumd.ports import Connection, Transport
from quorumd.protocol.apis import ApiKey, response_class, response_header_version
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.codec import decode_prefix, encode
from quorumd.protocol.framing import FrameReader
from quorumd.protocol.messages.envelope_response import EnvelopeResponse
from quorumd.protocol.messages.fetch_quorum_records_response import FetchQuorumRecordsResponse, SnapshotId
from quorumd.protocol.messages.fetch_response import FetchResponse
from quorumd.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse, PartitionSnapshot
from quorumd.protocol.wire import Message
from quorumd.raft.effects import ControlBatch
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.stream import Side
from quorumd.simulator.inspection.log_mirror import Batch

T = TypeVar("T")
MAX_RESPONSES: Final = 6
"""The largest number of altered responses, of each kind."""
ALTERED: Final = (
    int(ApiKey.FETCH_QUORUM_RECORDS),
    int(ApiKey.FETCH_SNAPSHOT),
    int(ApiKey.ENVELOPE),
    int(ApiKey.FETCH),
)
MAX_FRAME_BYTES: Final = 1 << 30
EPOCH_POSITION: Final = 12
"""Where the epoch, which the checksum does not cover, begins in a batch."""
STRANGERS: Final = (900, 901)
"""Ids that no node has."""
ERRORS: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class Follower(NamedTuple):
    """The state of a follower."""

    epoch: int
    committed: int
    """Its high watermark, at most 0 before it knows one."""
    end: OffsetAndEpoch
    batches: list[Batch]


class FaultyLeader:
    """The next responses of a leader to some followers, or all, are wrong."""

    name = "faulty leader"

    def available(self, cluster: Cluster) -> bool:
        return bool(_followed(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        found = _followed(cluster)
        count = 1 + random.randrange(len(found))
        for machine, sides in random.sample(found, count):
            alter = partial(_alter, cluster, random, machine)
            counts = {api: 1 + random.randrange(MAX_RESPONSES) for api in ALTERED}
            for side in sides:
                side.connection = _FaultyResponses(side, alter, counts)


class _FaultyResponses:
    """The receiving end of a follower's connection, with altered responses."""

    def __init__(self, side: Side, alter: Callable[[Message], bool], counts: dict[int, int]) -> None:
        self._side = side
        self._connection: Connection = side.connection
        self._alter = alter
        self._counts = counts
        self._frames = FrameReader(MAX_FRAME_BYTES)

    def connected(self, transport: Transport) -> None:
        self._connection.connected(transport)

    def closed(self, reason: str, refused: bool) -> None:
        self._connection.closed(reason, refused)

    def received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            altered = self._altered(bytes(frame))
            self._connection.received(len(altered).to_bytes(4) + altered)

    def _request(self, correlation_id: bytes) -> bytes | None:
        """Return the request of the follower with this correlation id, if it is remembered."""
        written = reversed(self._side.remembered)
        return next((data for data in written if data[8:12] == correlation_id), None)

    def _altered(self, frame: bytes) -> bytes:
        """Return a response, altered if it is one to a fetch or to a forwarded request."""
        request = self._request(frame[:4])
        api, version = (int.from_bytes(request[at : at + 2]) for at in (4, 6)) if request else (-1, 0)
        if not self._counts.get(api):
            return frame
        body = 4 + response_header_version(api, version)
        message = decode_prefix(response_class(api), version, frame, body)[0]
        if not self._alter(message):
            return frame
        self._counts[api] -= 1
        return frame[:body] + encode(message, version)


def _followed(cluster: Cluster) -> list[tuple[Machine, list[Side]]]:
    """Return the running followers, with the connections to their leaders on which no response is on its way."""
    found = []
    for machine in cluster.running():
        leader = cluster.machines.get(machine.node.engine.leader_id) if machine.node is not None else None
        if leader is None or leader is machine or machine.exiting:
            continue
        to_leader = f"{leader.host}:{leader.port}"
        links = [side for side in cluster.network.links if side.process is machine.process]
        sides = [side for side in links if side.peer == to_leader and _is_quiet(side)]
        if sides:
            found.append((machine, sides))
    return found


def _is_quiet(side: Side) -> bool:
    """Whether the next byte that arrives begins a response."""
    return side.usable and not side.incoming and not side.far.stream.bytes_in_flight


def _alter(cluster: Cluster, random: Random, machine: Machine, message: Message) -> bool:
    """Alter a response. Returns False without a change."""
    node = machine.node
    if cluster.is_repaired or node is None:
        return False
    engine, end = node.engine, OffsetAndEpoch(node.log.end_offset, node.log.last_epoch)
    follower = Follower(engine.epoch, engine.high_watermark, end, machine.mirror.batches)
    name, is_altered = "", False
    if isinstance(message, FetchQuorumRecordsResponse) and message.error_code == ErrorCode.NONE:
        alter_fetch = random.choice(_FETCHES)
        name, is_altered = alter_fetch.__name__, alter_fetch(message, follower, random)
    elif isinstance(message, FetchSnapshotResponse) and message.topics:
        alter_snapshot, response = random.choice(_SNAPSHOTS), message.topics[0].partitions[0]
        if random.random() < 0.2:
            name, is_altered = _other_shape.__name__, _other_shape(message, message.topics, random)
        elif response.error_code == ErrorCode.NONE:
            name, is_altered = alter_snapshot.__name__, alter_snapshot(response, follower, random)
    elif isinstance(message, FetchResponse):
        name, is_altered = _other_shape.__name__, _other_shape(message, message.responses, random)
    elif isinstance(message, EnvelopeResponse) and message.error_code == ErrorCode.NONE:
        name, is_altered = _forwarded.__name__, _forwarded(message, random)
    if is_altered:
        cluster.counters[f"faulty responses: {name.strip('_')}"] += 1
    return is_altered


def _error(response: FetchQuorumRecordsResponse, follower: Follower, random: Random) -> bool:
    response.error_code = random.choice(ERRORS)
    return True


def _truncation(response: FetchQuorumRecordsResponse, follower: Follower, random: Random) -> bool:
    """Require that committed records are removed, or records that the follower does not have."""
    if follower.committed <= 0:
        return False
    response.next_fetch_offset, response.next_fetch_offset_epoch = random.choice(
        ((0, 0), (follower.end.offset + 1000, follower.end.epoch))
    )
    return True


def _snapshot(response: FetchQuorumRecordsResponse, follower: Follower, random: Random) -> bool:
    """Require a snapshot that ends below the high watermark, or not after the log."""
    if follower.committed <= 0:
        return False
    response.snapshot_id = SnapshotId(follower.committed - random.choice((0, 1)), 0)
    return True


def _old_records(response: FetchQuorumRecordsResponse, follower: Follower, random: Random) -> bool:
    """Send records that the follower already has."""
    response.records = follower.batches[0].data if follower.batches else b""
    return bool(follower.batches)


def _gap(response: FetchQuorumRecordsResponse, follower: Follower, random: Random) -> bool:
    """Omit the first batch."""
    records = bytes(response.records or b"")
    first = next(iter(headers(records)), None)
    response.records = records[first.size :] if first is not None else b""
    return bool(records)


def _other_epoch(response: FetchQuorumRecordsResponse, follower: Follower, random: Random) -> bool:
    """Change the epoch of the first batch to one that has not begun, or to the first."""
    records = bytes(response.records or b"")
    epoch = random.choice((follower.epoch + 1, 0))
    if not records or follower.end.epoch == 0:
        return False
    response.records = records[:EPOCH_POSITION] + epoch.to_bytes(4) + records[EPOCH_POSITION + 4 :]
    return True


def _other_voters(response: FetchQuorumRecordsResponse, follower: Follower, random: Random) -> bool:
    """Send a voter record that replaces all voters at once, or that has none."""
    if follower.committed <= 0:
        return False
    keys = [
        ReplicaKey(node_id, KafkaUuid(random.randbytes(16))) for node_id in random.choice(((), STRANGERS))
    ]
    record = VoterAssignment(VoterSet(tuple(Voter(key, ()) for key in keys)))
    response.records = encode_control_records(
        ControlBatch((record,)), follower.end.offset, follower.epoch, 1, ""
    )
    return True


def _snapshot_error(response: PartitionSnapshot, follower: Follower, random: Random) -> bool:
    response.error_code = random.choice(
        (*ERRORS, ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
    )
    return True


def _changed_bytes(response: PartitionSnapshot, follower: Follower, random: Random) -> bool:
    data = bytearray(response.unaligned_records or b"")
    if data:
        data[random.randrange(len(data))] ^= 1 + random.randrange(255)
        response.unaligned_records = bytes(data)
    return bool(data)


def _other_piece(response: PartitionSnapshot, follower: Follower, random: Random) -> bool:
    """Send no bytes, or bytes from another position."""
    way = random.randrange(3)
    if way == 0:
        response.unaligned_records = b""
    elif way == 1:
        response.position += 1
    else:
        response.snapshot_id.end_offset += 1
    return True


def _earlier_epoch(response: PartitionSnapshot, follower: Follower, random: Random) -> bool:
    response.current_leader.leader_epoch -= 1
    return True


def _other_shape(response: FetchSnapshotResponse | FetchResponse, topics: list[T], random: Random) -> bool:
    """Report an error of the whole response, no partition, or the partition twice."""
    way = random.randrange(3)
    if way == 0:
        response.error_code = random.choice((*ERRORS, 999))
    elif way == 1:
        topics.clear()
    else:
        topics *= 2
    return True


def _forwarded(response: EnvelopeResponse, random: Random) -> bool:
    """Report an error, or the response to another request. The request may have taken effect: an error after which it
    would be sent again is not possible."""
    data = bytes(response.response_data or b"")
    if random.random() < 0.5:
        response.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        response.response_data = (int.from_bytes(data[:4]) ^ 1).to_bytes(4) + data[4:]
    return True


_FETCHES: Final[tuple[Callable[[FetchQuorumRecordsResponse, Follower, Random], bool], ...]] = (
    _error,
    _truncation,
    _snapshot,
    _old_records,
    _gap,
    _other_epoch,
    _other_voters,
)
_SNAPSHOTS: Final[tuple[Callable[[PartitionSnapshot, Follower, Random], bool], ...]] = (
    _snapshot_error,
    _changed_bytes,
    _other_piece,
    _earlier_epoch,
)
