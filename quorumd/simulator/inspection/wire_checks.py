"""Checks of the messages between nodes, from the bytes on the wire: granted votes, and fetches that confirm reads."""

from __future__ import annotations

from math import inf
from typing import Any, Final

from quorumd.errors import ErrorCode, QuorumdError
from quorumd.ids import ZERO_UUID, ReplicaKey
from quorumd.protocol.apis import APIS, ApiKey, response_class, response_header_version
from quorumd.protocol.codec import decode_prefix
from quorumd.protocol.connection import read_request
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.stream import Side

SUPPORTED_VERSIONS: Final = {key: (api.min_version, api.max_version) for key, api in APIS.items()}
VOTE: Final = int(ApiKey.VOTE).to_bytes(2)
FETCHES: Final = (int(ApiKey.FETCH_QUORUM_RECORDS).to_bytes(2), int(ApiKey.FETCH).to_bytes(2))

VoteRequested = tuple[int, int, ReplicaKey]
"""The version of a request for a vote, its epoch and its candidate."""


class WireChecks:
    """A replica grants one vote per epoch, whatever it has saved (Raft paper 5.2). A client gets the result of a
    linearizable read only if some voter and those that sent it a fetch after the request are a majority (Raft thesis
    6.4, hole 30)."""

    one_vote = "a replica grants one vote per epoch"
    confirmed = "a read is confirmed by fetches sent after it"

    def __init__(self, cluster: Cluster) -> None:
        self.grants = 0
        self.reads = 0
        self._cluster = cluster
        self._links = cluster.network.links
        self._nodes = {machine.host: machine for machine in cluster.machines.values()}
        self._pending: dict[Side, dict[bytes, VoteRequested]] = {}
        """Requests for votes without a response, by connection and correlation id."""
        self._granted: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._fetched_ms: dict[tuple[int, int], float] = {}
        """When a node last sent a fetch to another node, by sender and receiver."""

    def written(self, side: Side, data: bytes) -> None:
        """Check data that a process writes to a connection. Raises InvariantViolation."""
        key = data[4:6]
        if (key in FETCHES or key == VOTE) and side in self._links:
            self._requested(side, data, key)
        if side.far in self._pending:
            self._responded(side, data)

    def read_completed(self, requested_ms: float) -> None:
        """Check a linearizable read whose result a client received just now. Raises InvariantViolation."""
        cluster = self._cluster
        if cluster.voters_changed:
            return
        self.reads += 1
        voters, sent = cluster.voters, self._fetched_ms
        for leader in voters:
            with_leader = [v for v in voters if v == leader or sent.get((v, leader), -inf) >= requested_ms]
            if 2 * len(with_leader) > len(voters):
                return
        raise InvariantViolation(
            self.confirmed,
            f"a client requested a read at {requested_ms:.1f} ms and has its result, but the last fetches by sender "
            f"and receiver are {dict(sorted(sent.items()))}",
        )

    def _requested(self, side: Side, data: bytes, key: bytes) -> None:
        sender, receiver = self._nodes.get(side.host), self._nodes.get(side.far.host)
        if sender is None or receiver is None or side.process is None:
            return
        if key in FETCHES:
            self._fetched_ms[sender.node_id, receiver.node_id] = self._cluster.heap.now_ms
            return
        frame = data[4 : 4 + int.from_bytes(data[:4])]
        try:
            request = read_request(frame, SUPPORTED_VERSIONS)
        except QuorumdError:
            return
        message: Any = request.message
        for topic in message.topics:
            for ballot in topic.partitions:
                if not ballot.pre_vote:
                    candidate = ReplicaKey(ballot.replica_id, ballot.replica_directory_id)
                    requested = (request.api_version, ballot.replica_epoch, candidate)
                    self._pending.setdefault(side, {})[frame[4:8]] = requested

    def _responded(self, side: Side, data: bytes) -> None:
        """Check the responses to requests for a vote in data that the voter writes."""
        pending, position = self._pending[side.far], 0
        while position + 8 <= len(data):
            end = position + 4 + int.from_bytes(data[position : position + 4])
            requested = pending.pop(data[position + 4 : position + 8], None)
            if requested is not None and end <= len(data):
                self._check_vote(side, requested, data[position + 4 : end])
            position = end
        if not pending:
            del self._pending[side.far]

    def _check_vote(self, side: Side, requested: VoteRequested, frame: bytes) -> None:
        version, epoch, candidate = requested
        api, machine = int(ApiKey.VOTE), self._nodes.get(side.host)
        response: Any = decode_prefix(
            response_class(api), version, frame, 4 + response_header_version(api, version)
        )[0]
        is_granted = response.error_code == ErrorCode.NONE and any(
            partition.vote_granted for topic in response.topics for partition in topic.partitions
        )
        if machine is None or not is_granted:
            return
        self.grants += 1
        voter = ReplicaKey(machine.node_id, machine.directory_id)
        before = self._granted.setdefault((voter, epoch), candidate)
        ids = {before.directory_id, candidate.directory_id} - {ZERO_UUID}
        if before.id != candidate.id or len(ids) > 1:
            raise InvariantViolation(
                self.one_vote,
                f"node {machine.node_id} grants its vote of epoch {epoch} to {candidate}, and granted it to {before}",
            )
