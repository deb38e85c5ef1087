"""Heartbeats of the benchmark's brokers go to the node that leads, even if one is rejected."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from scripts.bench import broker_fleet
from scripts.bench.broker_fleet import BrokerStub, Fleet


class Leader:
    """Stands in for a client that follows the leader; the first heartbeat is rejected."""

    def __init__(self) -> None:
        self.beats: list[int] = []
        self.enough = asyncio.Event()

    async def __aenter__(self) -> Leader:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def send(self, beat: BrokerHeartbeatRequest, node: str) -> BrokerHeartbeatResponse:
        assert node == "leader"
        self.beats.append(beat.broker_id)
        if len(self.beats) >= 4:
            self.enough.set()
        return BrokerHeartbeatResponse(
            0, ErrorCode.NOT_CONTROLLER if len(self.beats) == 1 else ErrorCode.NONE
        )


def test_fleet_keeps_beating_at_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    async def old_leader(message: Any) -> Any:
        raise AssertionError("the node that the broker registered with may not lead any more")

    async def run() -> list[int]:
        leader = Leader()
        monkeypatch.setattr(broker_fleet, "AdminClient", lambda addresses, timeout_ms: leader)
        monkeypatch.setattr(broker_fleet, "HEARTBEAT_S", 0.0)
        connection = cast(Any, SimpleNamespace(host="127.0.0.1", port=9, close=lambda: None))
        fleet = Fleet([BrokerStub(1, old_leader), BrokerStub(2, old_leader)], [connection])
        await asyncio.wait_for(leader.enough.wait(), 60)
        fleet.close()
        return leader.beats

    assert asyncio.run(run())[:4] == [1, 2, 1, 2]
