"""The limits of the benchmark of a million partitions, and the image that it measures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from scripts.bench import partition_image
from scripts.bench.partitions import MAX_HEARTBEATS, Daemon, PartitionReport, fence_broker
from scripts.bench.processes import BenchError

MEASURED = {
    "partitions": 1_000_000,
    "image_mib": 400.0,
    "load_cpu_seconds": 9.0,
    "change_us_few": 10.0,
    "change_us_many": 12.0,
    "change_ratio": 1.2,
    "fence_led": 30_000,
    "fence_records": 60_001,
    "fence_bytes": 3_000_000,
    "fence_parts": {"plan": 0.5},
}
BUILT = {"size": 100_000_000, "cpu_seconds": 20.0, "peak_mib": 500.0}


def report(
    resident_mib: float = 500.0, start: float = 20.0, fence: float = 1.0, ratio: float = 1.2
) -> PartitionReport:
    daemon = Daemon(start, start, resident_mib, fence)
    return PartitionReport("compiled", BUILT, daemon, MEASURED | {"change_ratio": ratio})


@pytest.mark.parametrize(
    ("reported", "what"),
    [
        (report(resident_mib=1_300.0), "memory"),
        (report(start=31.0), "start"),
        (report(fence=3.1), "fencing"),
        (report(ratio=1.31), "a change"),
    ],
)
def test_exceeded_limits_are_reported(reported: PartitionReport, what: str) -> None:
    (sentence,) = reported.missed()
    assert what in sentence
    assert reported.as_json()["missed"] == [sentence]


def test_measured_image_is_the_generated_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_image, "CHANGES", 20)
    monkeypatch.setattr(partition_image, "ROUNDS", 1)
    monkeypatch.setattr(partition_image, "SMALL_TOPICS", 1)
    # Otherwise it runs in its own process.
    monkeypatch.setattr("gc.disable", lambda: None)
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setattr("gc.set_threshold", lambda *thresholds: None)
    filled = partition_image.fill(str(tmp_path), 2)
    built = partition_image.build(str(tmp_path), filled["end_offset"])
    measured = partition_image.measure(str(tmp_path), 2)
    assert filled["records"] == built["records"] == partition_image.BROKERS + 2 + 200
    assert measured["partitions"] == 200
    assert 0 < measured["fence_led"] < measured["fence_records"] <= 201


class Responses:
    """Heartbeat responses of a controller in order; the last is repeated."""

    def __init__(self, *responses: BrokerHeartbeatResponse) -> None:
        self.responses = list(responses)
        self.sent = 0

    async def send(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        assert request.want_fence
        self.sent += 1
        return self.responses[min(self.sent, len(self.responses)) - 1]


DRAINING = BrokerHeartbeatResponse(0, 0, True, False, False)


def test_broker_with_many_partitions_is_fenced_by_several_heartbeats() -> None:
    controller = Responses(DRAINING, DRAINING, BrokerHeartbeatResponse(0, 0, True, True, False))
    assert asyncio.run(fence_broker(controller.send)) == 3


@pytest.mark.parametrize(
    "response", [DRAINING, BrokerHeartbeatResponse(0, int(ErrorCode.STALE_BROKER_EPOCH))], ids=str
)
def test_broker_that_is_not_fenced_fails_the_benchmark(response: BrokerHeartbeatResponse) -> None:
    controller = Responses(response)
    with pytest.raises(BenchError):
        asyncio.run(fence_broker(controller.send))
    assert controller.sent == (1 if response.error_code else MAX_HEARTBEATS)
