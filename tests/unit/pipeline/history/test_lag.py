"""The lag of copies in directories and of nodes, as recorded in a history."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quorumd.ids import METADATA_TOPIC
from quorumd.pipeline.history.lag import lag_of
from quorumd.pipeline.history.tables import as_time
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import describe_quorum_response as describe
from quorumd.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from quorumd.protocol.wire import Message
from tests.support.client.fake_node import FakeNode
from tests.support.history.logs import history, write_segment

NOW = as_time(5)


def test_lag_of_copies_is_relative_to_most_up_to_date(tmp_path: Path) -> None:
    log, _ = history(1, 60)
    one, two = (write_segment(tmp_path / name, log[:40]) for name in ("one", "two"))
    lag = lag_of({"path": f"1={one},2={two}"})
    end = log[39].offset + 1
    assert lag(NOW, end - 1) == [], "there is more in the log"
    assert [(row["node_id"], row["log_end_offset"], row["lag"]) for row in lag(NOW, end)] == [
        (1, end, 0),
        (2, end, 0),
    ]
    write_segment(two, log[:60])
    behind = [(row["ts"], row["role"], row["lag"]) for row in lag(NOW, end + 20)]
    assert behind == [(NOW, "directory", 20), (NOW, "directory", 0)]


@pytest.mark.asyncio
async def test_discovered_nodes_are_used_without_bootstrap_node() -> None:
    def response(request: Request) -> Message:
        if request.api_key == ApiKey.METADATA:
            return MetadataResponse(brokers=[MetadataResponseBroker(2, *leader.address)], controller_id=2)
        voters = [describe.ReplicaState(2, log_end_offset=12), describe.ReplicaState(3, log_end_offset=9)]
        partition = describe.PartitionData(0, 0, None, 2, 4, 9, voters)
        return describe.DescribeQuorumResponse(0, None, [describe.TopicData(METADATA_TOPIC, [partition])])

    async with FakeNode(response) as leader:
        async with FakeNode(response) as given:
            lag = lag_of({"bootstrap": f"127.0.0.1:{given.address[1]}"})
            first = await asyncio.to_thread(lag, NOW, 9)
        again = await asyncio.to_thread(lag, NOW, 9)
    for rows in (first, again):
        assert [(row["node_id"], row["role"], row["lag"]) for row in rows] == [
            (2, "leader", 0),
            (3, "voter", 3),
        ]
