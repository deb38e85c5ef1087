"""Reads the log and the snapshots of a live cluster as an observer: blocking, one connection at a time.

    with Observer(parse_bootstrap("127.0.0.1:9093")) as observer:
        extent = observer.extent()                      # the committed offsets
        fetched = observer.fetch(extent.start)          # whole batches

It sends the requests of stock observers and admin clients (Fetch, FetchSnapshot, DescribeQuorum, DescribeCluster,
ApiVersions) to quorumd and to stock controllers alike, and by default reads only below the high watermark. It fetches
with a consumer's replica id (-1), which leaves no state at the leader. It uses its own replica id only for data that
is only sent to replicas: the newest snapshot and uncommitted records.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import BinaryIO, NamedTuple, NoReturn, Self, TypeVar

from quorumd.client.leader_discovery import (
    NODE_ERRORS,
    RETRY_BACKOFF_MS,
    Address,
    LeaderDiscovery,
    NodeAddress,
    Retries,
)
from quorumd.client.security import PLAIN, ClientSecurity
from quorumd.errors import (
    CorruptLog,
    ErrorCode,
    InputIncomplete,
    MalformedMessage,
    RequestFailed,
    UnsupportedVersion,
)
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, METADATA_TOPIC_ID, NO_NODE, OffsetAndEpoch
from quorumd.log.batch_extents import whole_batches
from quorumd.pipeline.scan.batches import NO_END
from quorumd.protocol.apis import ApiKey, api
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.handshake import Handshake, choose_version
from quorumd.protocol.messages import (
    describe_cluster_request,
    describe_cluster_response,
    describe_quorum_request,
    describe_quorum_response,
    fetch_request,
    fetch_response,
    fetch_snapshot_request,
    fetch_snapshot_response,
)
from quorumd.protocol.wire import Message

T = TypeVar("T")
_Endpoint = fetch_response.NodeEndpoint | fetch_snapshot_response.NodeEndpoint

FETCH_BYTES = 4 * 1024 * 1024
OBSERVER_ID = 2_147_000_595
"""The replica id of an observer that is not a broker, outside the usual range of ids."""
DEFAULT_TIMEOUT_S = 30.0
_ATTEMPT_TIMEOUT_S = 10.0
_RECEIVE_BYTES = 1024 * 1024
_REPORTED_FAILURE = 6
"""The number of the failure that is reported; most elections end before it, within one to two seconds."""
_SNAPSHOT_ATTEMPTS = 10
_TOPIC_ID_VERSION = 13
_REPLICA_STATE_VERSION = 15
_MOVED = NODE_ERRORS | {
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
}
"""Errors after which to retry, with the leader or with the same node."""


class Extent(NamedTuple):
    """The offsets [start, end) of a cluster's log, and its leader."""

    start: int
    end: int
    leader: int


class Fetched(NamedTuple):
    """Complete batches up to `end_offset`, the first with the requested offset; b"" at the end of the log.

    `node` is the leader that responded.
    """

    data: bytes
    end_offset: int
    high_watermark: int
    log_start: int
    node: int


class _Moved(RequestFailed):
    """The node is not the leader, or its response is unusable: retry with the leader that is known then."""


class _Deleted(Exception):
    """The leader does not have the snapshot: it was deleted, or another node leads."""


class _NodeConnection:
    """A blocking connection, with the API versions that both sides support."""

    def __init__(self, address: Address, timeout_s: float, security: ClientSecurity) -> None:
        self.address = address
        self._client = ClientConnection("quorumd-pipeline")
        self._socket = socket.create_connection(address, timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security.context is not None:
                self._socket = security.context.wrap_socket(self._socket, server_hostname=address[0])
            handshake = Handshake(
                self._client, security.new_sasl_client if security.login is not None else None
            )
            data: bytes | None = handshake.begin()
            while data is not None:
                data = handshake.handle_response(self._exchange(data))
        except BaseException:
            self._socket.close()
            raise
        self._ranges = handshake.peer_ranges

    def close(self) -> None:
        self._socket.close()

    def version(self, api_key: int) -> int:
        """Return the version to use. Raises RequestFailed if the node does not support the API."""
        version = choose_version(api_key, self._ranges)
        if version is None:
            host, port = self.address
            raise RequestFailed(
                f"{host}:{port} does not support {api(api_key).name}; check that it is the listener of a controller"
            )
        return version

    def send(self, request: Message) -> Message:
        """Send a request and wait for its response. Raises OSError, MalformedMessage: then close the connection."""
        assert request.API_KEY is not None, f"{request.NAME} is not a request"
        return self._exchange(self._client.request(request, self.version(request.API_KEY))[1])

    def _exchange(self, data: bytes) -> Message:
        self._socket.sendall(data)
        while True:
            received = self._socket.recv(_RECEIVE_BYTES)
            if not received:
                raise ConnectionResetError("the node closed the connection")
            for _, response in self._client.receive(received):
                return response


class Observer:
    """Reads a live cluster; every call is retried with the current leader for up to `timeout_s`, and `report` is
    called once with the reason.

    Raises RequestFailed after that, or for an error that a retry cannot resolve.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        security: ClientSecurity = PLAIN,
        *,
        committed_only: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._report = report
        self._security = security
        self._discovery = LeaderDiscovery(bootstrap, random.randrange(len(bootstrap)))
        self._replica_id = NO_NODE if committed_only else OBSERVER_ID
        self._timeout_s = timeout_s
        self._node: _NodeConnection | None = None
        self._epoch = 0

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The bootstrap addresses, and the addresses of the voters in the last response."""
        return self._discovery.addresses

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._node is not None:
            self._node.close()
            self._node = None

    def cluster_id(self) -> str | None:
        """Return the cluster id; None if the cluster has none yet."""
        return self._retried("reading the cluster id", self._cluster_id)

    def extent(self) -> Extent:
        """Return the offsets that can be read now."""
        end = self._retried("finding the end of the log", self._end)
        fetched = self.fetch(end)
        return Extent(fetched.log_start, end, fetched.node)

    def fetch(self, offset: int, max_bytes: int = FETCH_BYTES) -> Fetched:
        """Fetch batches from the batch with `offset`. Raises InputIncomplete if the log begins above it."""
        return self._retried(f"fetching records from offset {offset}", lambda: self._fetch(offset, max_bytes))

    def read(self, start: int, end: int) -> Iterator[Fetched]:
        """Yield the batches of the offsets [start, end), which must be committed, some megabytes at a time."""
        deadline = time.monotonic() + self._timeout_s
        offset = start
        while offset < end:
            fetched = self.fetch(offset)
            if fetched.data:
                yield fetched
                offset = fetched.end_offset
                deadline = time.monotonic() + self._timeout_s
            elif time.monotonic() > deadline:
                # The high watermark of a new leader can be below the previous leader's for a moment.
                raise RequestFailed(
                    f"node {fetched.node} has no committed records from offset {offset}, although the cluster had "
                    f"committed records up to offset {end}; waited {self._timeout_s:g} s"
                )
            else:
                time.sleep(RETRY_BACKOFF_MS / 1000)

    def newest_snapshot(self) -> OffsetAndEpoch | None:
        """Return the end offset and epoch of the leader's newest snapshot; None if there is none."""
        return self._retried("finding the newest snapshot", self._newest_snapshot)

    def copy_snapshot(self, file: BinaryIO) -> OffsetAndEpoch | None:
        """Write the leader's newest snapshot to `file`, and return its end offset and epoch; None if there is none.

        Starts over with the newest snapshot if this snapshot is deleted before it is complete, or if another node
        leads: each node builds its own snapshots.
        """
        for _ in range(_SNAPSHOT_ATTEMPTS):
            snapshot = self.newest_snapshot()
            if snapshot is None:
                return None
            file.seek(0)
            file.truncate()
            try:
                for piece in self._snapshot_pieces(snapshot):
                    file.write(piece)
            except _Deleted:
                continue
            return snapshot
        raise RequestFailed(f"{_SNAPSHOT_ATTEMPTS} snapshots were deleted while they were fetched")

    def _snapshot_pieces(self, snapshot: OffsetAndEpoch) -> Iterator[bytes]:
        position, size = 0, 1
        while position < size:
            data, size = self._retried(
                f"fetching snapshot {snapshot.offset}-{snapshot.epoch} from byte {position}",
                lambda position=position: self._snapshot_piece(snapshot, position),  # type: ignore[misc] # called at once
            )
            position += len(data)
            yield data

    # One attempt each

    def _cluster_id(self) -> str | None:
        request = describe_cluster_request.DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER)
        response = self._send(request)
        assert isinstance(response, describe_cluster_response.DescribeClusterResponse)
        self._check(response.error_code, "DescribeCluster")
        return response.cluster_id or None

    def _end(self) -> int:
        wire = describe_quorum_request
        response = self._send(
            wire.DescribeQuorumRequest(
                topics=[wire.TopicData(METADATA_TOPIC, [wire.PartitionData(METADATA_PARTITION)])]
            )
        )
        assert isinstance(response, describe_quorum_response.DescribeQuorumResponse)
        self._check(response.error_code, "DescribeQuorum")
        partition = response.topics[0].partitions[0]
        if partition.error_code in _MOVED:
            # Stock controllers include the leader only in responses to Fetch.
            self._fetched(self._replica_id, 0, self._epoch, 1)
            raise _Moved("the leader was just elected")
        self._check(partition.error_code, "DescribeQuorum")
        self._epoch = max(self._epoch, partition.leader_epoch)
        self._discovery.nodes = tuple(
            NodeAddress(node.node_id, each.host, each.port)
            for node in response.nodes
            for each in node.listeners
        )
        if partition.high_watermark < 0:
            raise _Moved("the leader does not know its high watermark yet")
        if self._replica_id != NO_NODE:
            voters = partition.current_voters
            return max((v.log_end_offset for v in voters), default=partition.high_watermark)
        return partition.high_watermark

    def _fetch(self, offset: int, max_bytes: int) -> Fetched:
        # The leader's log has the current epoch, so the requested offset is never reported as diverging.
        partition, node = self._fetched(self._replica_id, offset, self._epoch, max_bytes)
        if offset == partition.log_start_offset == 0 and partition.snapshot_id.end_offset >= 0:
            # A stock leader responds to offset 0 with its snapshot even if its log begins there.
            return self._fetch(1, max_bytes)
        if partition.snapshot_id.end_offset >= 0 or partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise InputIncomplete(
                f"offset {offset} is not in the log of node {node}; "
                "records before its start are in the snapshot (level snapshot)"
            )
        self._check(partition.error_code, "Fetch")
        if partition.diverging_epoch.epoch >= 0 or partition.high_watermark < 0:
            raise _Moved("the leader was just elected")
        records = partition.records or b""
        # Stock controllers send uncommitted records to observers.
        max_offset = partition.high_watermark if self._replica_id == NO_NODE else NO_END
        try:
            stop, end_offset = whole_batches(records, 0, len(records), max_offset)
        except CorruptLog as fault:
            raise MalformedMessage(str(fault)) from None
        return Fetched(records[:stop], end_offset, partition.high_watermark, partition.log_start_offset, node)

    def _newest_snapshot(self) -> OffsetAndEpoch | None:
        partition, _ = self._fetched(OBSERVER_ID, 0, 0, 1)
        self._check(partition.error_code, "Fetch")
        snapshot = partition.snapshot_id
        return OffsetAndEpoch(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None

    def _snapshot_piece(self, snapshot: OffsetAndEpoch, position: int) -> tuple[bytes, int]:
        wire = fetch_snapshot_request
        if self._node is None:
            # There may be a new leader. A stock one closes the connection instead of refusing a FetchSnapshot of
            # another epoch, but refuses a Fetch with the current epoch.
            self._fetched(self._replica_id, 0, 0, 1)
        requested = wire.PartitionSnapshot(
            METADATA_PARTITION, self._epoch, wire.SnapshotId(snapshot.offset, snapshot.epoch), position
        )
        response = self._send(
            wire.FetchSnapshotRequest(
                None, NO_NODE, FETCH_BYTES, [wire.TopicSnapshot(METADATA_TOPIC, [requested])]
            )
        )
        assert isinstance(response, fetch_snapshot_response.FetchSnapshotResponse)
        self._check(response.error_code, "FetchSnapshot")
        partition = response.topics[0].partitions[0]
        if partition.error_code in _MOVED:
            leader = partition.current_leader
            self._moved(leader.leader_id, leader.leader_epoch, response.node_endpoints)
        if partition.error_code == ErrorCode.SNAPSHOT_NOT_FOUND:
            raise _Deleted
        self._check(partition.error_code, "FetchSnapshot")
        if not partition.unaligned_records:
            raise _Moved("the response has no data of the snapshot")
        return partition.unaligned_records, partition.size

    def _fetched(
        self, replica_id: int, offset: int, last_epoch: int, max_bytes: int
    ) -> tuple[fetch_response.PartitionData, int]:
        """Fetch from the leader; return the partition of the response and the leader's id."""
        wire = fetch_request
        version = self._connected().version(ApiKey.FETCH)
        partition = wire.FetchPartition(
            METADATA_PARTITION, self._epoch, offset, last_epoch, partition_max_bytes=max_bytes
        )
        by_id = version >= _TOPIC_ID_VERSION
        topic = wire.FetchTopic(partitions=[partition])
        if by_id:
            topic.topic_id = METADATA_TOPIC_ID
        else:
            topic.topic = METADATA_TOPIC
        request = wire.FetchRequest(max_bytes=max_bytes, topics=[topic])
        if version >= _REPLICA_STATE_VERSION:
            request.replica_state = wire.ReplicaState(replica_id)
        else:
            request.replica_id = replica_id
        response = self._send(request)
        assert isinstance(response, fetch_response.FetchResponse)
        self._check(response.error_code, "Fetch")
        if not response.responses or not response.responses[0].partitions:
            raise _Moved("the response has no partition")
        found = response.responses[0].partitions[0]
        leader = found.current_leader
        if found.error_code in _MOVED:
            self._moved(leader.leader_id, leader.leader_epoch, response.node_endpoints)
        self._epoch = max(self._epoch, leader.leader_epoch)
        return found, leader.leader_id

    # Finding the leader

    def _connected(self) -> _NodeConnection:
        if self._node is None:
            timeout_s = min(self._timeout_s, _ATTEMPT_TIMEOUT_S)
            self._node = _NodeConnection(self._target(), timeout_s, self._security)
        return self._node

    def _send(self, request: Message) -> Message:
        return self._connected().send(request)

    def _target(self) -> Address:
        leader = self._discovery.leader
        return leader.address if leader is not None else self._discovery.next_address

    def _moved(self, leader: int, epoch: int, endpoints: Iterable[_Endpoint]) -> NoReturn:
        """Record the leader in a response, and raise _Moved to retry."""
        self._epoch = max(self._epoch, epoch)
        address = self._connected().address
        known = next((NodeAddress(leader, e.host, e.port) for e in endpoints if e.node_id == leader), None)
        if known is None:
            self._discovery.on_failure()
        self._discovery.leader = known
        if known is None or known.address != address:
            self.close()
        raise _Moved(f"node {leader} leads in epoch {epoch}" if leader >= 0 else "there is no leader")

    def _retried(self, what: str, attempt: Callable[[], T]) -> T:
        retries = Retries(what, self._timeout_s, time.monotonic())
        while True:
            try:
                return attempt()
            except _Moved as moved:
                failure: RequestFailed = moved
            except (OSError, MalformedMessage, UnsupportedVersion) as error:
                host, port = self._target()
                failure = RequestFailed(f"{host}:{port}: {error}")
                self._discovery.on_failure()
                self.close()
            leader_is_known = self._discovery.leader is not None
            wait_s = retries.wait_s(failure, time.monotonic(), leader_is_known=leader_is_known)
            if retries.failures == _REPORTED_FAILURE:
                self._report(f"{what}: retrying for up to {self._timeout_s:g} s: {failure}")
            if wait_s:
                time.sleep(wait_s)

    def _check(self, error_code: int, api_name: str) -> None:
        if error_code != ErrorCode.NONE:
            host, port = self._connected().address
            raise RequestFailed(
                f"{host}:{port} responded to {api_name} with {ErrorCode.describe(error_code)}", error_code
            )
