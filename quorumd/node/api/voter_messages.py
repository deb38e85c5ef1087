"""Translates between the engine's values and AlterQuorum, AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter.

A response that a stock client parses never contains a private error code. `text` is the error message, "" for none.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, ZERO_UUID, Endpoint, ReplicaKey
from quorumd.node.peers.address_book import Address, is_valid
from quorumd.node.wire.fetch_messages import REPLICA_DIRECTORY_VERSION
from quorumd.node.wire.quorum_messages import names_too_many, public_error
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import alter_quorum_request, alter_quorum_response
from quorumd.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from quorumd.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from quorumd.protocol.messages.api_versions_response import ApiVersion, SupportedFeatureKey
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from quorumd.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from quorumd.protocol.messages.update_raft_voter_response import CurrentLeader, UpdateRaftVoterResponse
from quorumd.raft.events import SetTargetVoters

MAX_LISTENERS = 16
MAX_LISTENER_NAME_LENGTH = 255
"""Characters in a listener name."""


def target_from_wire(partition: alter_quorum_request.PartitionData) -> SetTargetVoters:
    """Return the requested voters; None, which cancels a pending change, for null."""
    requested = partition.target_voters
    return SetTargetVoters(None if requested is None else tuple(target.voter_id for target in requested))


def key_from_wire(
    message: AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest,
) -> ReplicaKey | None:
    """The voter in a request; None if the id or the directory id is missing (KIP-853 requires both)."""
    if message.voter_id < 0 or message.voter_directory_id == ZERO_UUID:
        return None
    return ReplicaKey(message.voter_id, message.voter_directory_id)


def endpoints_from_wire(message: AddRaftVoterRequest | UpdateRaftVoterRequest) -> tuple[Endpoint, ...] | None:
    """The listeners in a request; None if any of them must not be written to the log."""
    listeners = message.listeners
    names = {listener.name.upper() for listener in listeners}
    if len(names) < len(listeners) or len(listeners) > MAX_LISTENERS:
        return None
    if not all(_is_valid_listener_name(e.name) and is_valid(Address(e.host, e.port)) for e in listeners):
        return None
    return tuple(Endpoint(e.name.upper(), e.host, e.port) for e in listeners)


def _is_valid_listener_name(text: str) -> bool:
    return 0 < len(text) <= MAX_LISTENER_NAME_LENGTH and text.isascii() and text.isprintable()


def supports_feature(features: Sequence[SupportedFeatureKey], name: str, level: int) -> bool:
    """Whether an ApiVersions response contains the feature at that level."""
    return any(f.name == name and f.min_version <= level <= f.max_version for f in features)


def is_followable(supported_versions: Sequence[ApiVersion]) -> bool:
    """Whether a node with these APIs can lead: followers must be able to send their directory ids when they fetch."""
    newest = {api.api_key: api.max_version for api in supported_versions}
    return ApiKey.FETCH_QUORUM_RECORDS in newest or newest.get(ApiKey.FETCH, -1) >= REPLICA_DIRECTORY_VERSION


def alter_quorum_response_of(
    request: alter_quorum_request.AlterQuorumRequest,
    error: ErrorCode,
    text: str = "",
    leader_id: int = NO_NODE,
    epoch: int = -1,
) -> alter_quorum_response.AlterQuorumResponse:
    """Build the response, with the error per partition, or once for a request that names too many. An error includes
    the leader if it is known (hole 4)."""
    wire, topics = alter_quorum_response, request.topics
    if names_too_many(topics):
        topics = [alter_quorum_request.TopicData(topics[0].topic_name, topics[0].partitions[:1])]
    if error is ErrorCode.NONE or leader_id == NO_NODE:
        leader_id = epoch = -1
    return wire.AlterQuorumResponse(
        [
            wire.TopicData(
                topic.topic_name,
                [
                    wire.PartitionData(p.partition_index, public_error(error), leader_id, epoch, text or None)
                    for p in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def add_voter_response(error: ErrorCode, text: str = "") -> AddRaftVoterResponse:
    return AddRaftVoterResponse(0, public_error(error), text or None)


def remove_voter_response(error: ErrorCode, text: str = "") -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(0, public_error(error), text or None)


def update_voter_response(
    error: ErrorCode, leader_id: int, epoch: int, leader: Endpoint | None
) -> UpdateRaftVoterResponse:
    """Build the response, which has no error message and always includes the leader."""
    host, port = (leader.host, leader.port) if leader else ("", 0)
    return UpdateRaftVoterResponse(0, public_error(error), CurrentLeader(leader_id, epoch, host, port))
