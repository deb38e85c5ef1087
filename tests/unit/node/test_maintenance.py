"""The periodic work of a node."""

from __future__ import annotations

from typing import Any

from quorumd.node.maintenance import Maintenance
from tests.support.node.parts import NodeParts


class RecordingParts:
    """The parts that maintenance calls; records the calls."""

    durable_checkpoint = 42

    def __init__(self) -> None:
        self.calls: list[object] = []

    def save(self) -> None:
        self.calls.append("save")

    def update_voter(self) -> None:
        self.calls.append("update voter")

    def maintain(self, durable_checkpoint: int) -> None:
        self.calls.append(durable_checkpoint)


def test_work_runs_once_per_interval_until_the_node_stops() -> None:
    harness, recording = NodeParts(), RecordingParts()
    part: Any = recording
    maintenance = Maintenance(harness.basics, harness.lifecycle, part, part, part)
    maintenance.start()
    interval_ms = harness.settings.maintenance_interval_ms
    harness.time.pass_ms(interval_ms - 1)
    assert recording.calls == []
    harness.time.pass_ms(interval_ms + 1)
    assert recording.calls == 2 * ["save", "update voter", 42]
    harness.lifecycle.stop(0, "")
    harness.time.pass_ms(interval_ms)
    assert len(recording.calls) == 6
