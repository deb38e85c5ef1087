"""Batches that are too large have no effect, and elections are reported once they are committed."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.elections import UncleanElection
from quorumd.controller.partition import NO_LEADER, RECOVERING, Partition, PartitionId, partition_record
from quorumd.ids import KafkaUuid
from quorumd.node.state import metadata_writer
from quorumd.node.state.metadata_writer import MetadataWriter
from quorumd.node.state.proposals import MAX_BATCH_BYTES
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import size_of_records
from tests.support.node.parts import GROUP, NodeParts

TOPIC = KafkaUuid(b"the topic's id..")


class WriterHarness(NodeParts):
    """A writer on a log; records the elections that it reports and the outcomes of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.elections: list[UncleanElection] = []
        self.outcomes: list[bool] = []
        self.writer = MetadataWriter(lambda: True, self.machine, self.proposals, self.elections.extend)

    def write_record(self, record: Any) -> bool:
        return self.writer.write_batch([record], self.outcomes.append)

    def settle(self) -> None:
        """Append what was proposed, and commit it."""
        self.run_turns()
        self.proposals.committed(self.log.end_offset)


def test_batch_that_is_too_large_has_no_effect() -> None:
    harness = WriterHarness()
    records = [
        ConfigRecord(*GROUP, f"key {number}", "x" * 32_000) for number in range(MAX_BATCH_BYTES // 32_000 + 1)
    ]
    assert not harness.writer.write_batch(records, harness.outcomes.append)
    assert harness.write_record(ConfigRecord(*GROUP, "key", "value"))
    assert harness.config() == {"key": "value"}
    harness.settle()
    assert harness.outcomes == [True]


def test_batches_may_have_exactly_the_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = WriterHarness()
    records = [ConfigRecord(*GROUP, f"key {number}", "x") for number in range(5)]
    size = size_of_records([encode_record(record, 0) for record in records[:2]])
    monkeypatch.setattr(metadata_writer, "MAX_BATCH_BYTES", size)
    proposed: list[int] = []
    propose = harness.proposals.propose
    monkeypatch.setattr(
        harness.proposals,
        "propose",
        lambda values, *rest: (proposed.append(len(values)), propose(values, *rest)),
    )
    harness.writer.write_batches(records, harness.outcomes.append)
    harness.settle()
    assert (proposed, harness.outcomes) == ([2, 2, 1], [True])


def elect(harness: WriterHarness, *, elr: tuple[int, ...]) -> None:
    """Elect broker 1, the only replica, from an empty ISR."""
    partition = Partition((1,), (), NO_LEADER, elr=elr)
    for record in (TopicRecord("t", TOPIC), partition_record(PartitionId(TOPIC, 0), partition)):
        harness.machine.image.apply(record, [])
    change = PartitionChangeRecord(0, TOPIC)
    change.leader, change.isr = 1, [1]
    if not elr:
        change.leader_recovery_state = RECOVERING
    assert harness.write_record(change)


def test_unclean_election_is_reported_once_committed() -> None:
    harness = WriterHarness()
    elect(harness, elr=())
    harness.run_turns()
    assert harness.elections == []
    harness.settle()
    assert [(each.topic, each.number, each.leader) for each in harness.elections] == [("t", 0, 1)]
    assert (harness.outcomes, harness.writer.eligible_elections) == ([True], 0)


def test_election_of_an_eligible_replica_is_counted_once_committed() -> None:
    harness = WriterHarness()
    elect(harness, elr=(1,))
    harness.settle()
    assert (harness.elections, harness.outcomes, harness.writer.eligible_elections) == ([], [True], 1)


def test_election_that_was_lost_with_its_leader_is_not_reported() -> None:
    harness = WriterHarness()
    elect(harness, elr=())
    harness.run_turns()
    harness.proposals.on_leadership_lost()
    assert (harness.elections, harness.outcomes) == ([], [False])
