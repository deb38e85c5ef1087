"""Parts that the KIP-595 draft omits from its responses, as in shipped Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages import (
    alter_quorum_response,
    begin_quorum_epoch_response,
    describe_quorum_response,
    end_quorum_epoch_response,
    vote_response,
)


@pytest.mark.parametrize(
    ("module", "name"),
    [(begin_quorum_epoch_response, "BeginQuorumEpoch"), (end_quorum_epoch_response, "EndQuorumEpoch")],
)
def test_hole_20_epoch_responses_name_the_partition(module: Any, name: str) -> None:
    partition = module.PartitionData(partition_index=7, error_code=int(ErrorCode.NONE))
    response = getattr(module, f"{name}Response")(0, [module.TopicData(METADATA_TOPIC, [partition])])
    assert encode(response, 0).count(bytes([0, 0, 0, 7])) == 1
    assert decode(type(response), 0, encode(response, 0)) == response


def test_hole_20_vote_responses_are_flexible_from_the_first_version_on() -> None:
    """Compact lengths (one more than they are) and a count of tagged fields behind every struct."""
    wire = vote_response
    partition = wire.PartitionData(0, 0, 2, 5, vote_granted=True)
    response = wire.VoteResponse(0, [wire.TopicData("t", [partition])])
    assert encode(response, 0).hex() == "0000" + "02" + "0274" + "02" + "00000000" + "0000" + "00000002" + (
        "00000005" + "01" + "00" * 3
    )


def test_hole_20_draft_describe_and_alter_have_partition_errors() -> None:
    """AlterQuorum of the draft has no other place for an error; DescribeQuorum v0 also has one per partition."""
    alter = alter_quorum_response
    refused = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    topics = [alter.TopicData(METADATA_TOPIC, [alter.PartitionData(0, refused)])]
    assert not hasattr(alter.AlterQuorumResponse(topics), "error_code")
    came = decode(alter.AlterQuorumResponse, 0, encode(alter.AlterQuorumResponse(topics), 0))
    assert came.topics[0].partitions[0].error_code == refused
    describe = describe_quorum_response
    described = describe.DescribeQuorumResponse(
        topics=[describe.TopicData(METADATA_TOPIC, [describe.PartitionData(0, refused)])]
    )
    seen = decode(describe.DescribeQuorumResponse, 0, encode(described, 0))
    assert (seen.error_code, seen.topics[0].partitions[0].error_code) == (0, refused)
