"""The periodic work of an active controller: when it runs, and that it ends with the leadership."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from random import Random

import pytest

from quorumd.controller.controller import ControllerSettings
from quorumd.controller.elections import MAX_SWEEP_RECORDS
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.ids import KafkaUuid
from quorumd.node.controller.runner import ControllerRunner
from quorumd.node.settings import NodeSettings
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.entropy import SimulatedEntropy
from tests.support.controller.topic_harness import a_broker
from tests.support.node.parts import NodeParts

INTERVAL_MS = 5000.0
TOPIC_ID = KafkaUuid(b"the topic's id..")
WHERE = PartitionId(TOPIC_ID, 0)


class PeriodicHarness(NodeParts):
    """The runner of a leader whose image is complete."""

    def __init__(self, registers: bool = False) -> None:
        super().__init__()
        self.registers = registers
        quorum = self.quorum()
        quorum.role.is_image_complete = True
        self.runner = ControllerRunner(
            self.basics, quorum, self.machine, self.proposals, SimulatedEntropy(Random(1))
        )

    @cached_property
    def settings(self) -> NodeSettings:
        controller = ControllerSettings(
            broker_session_timeout_ms=1e9,
            leader_imbalance_check_interval_ms=INTERVAL_MS,
            token_check_interval_ms=INTERVAL_MS,
            token_secret_key="secret",
        )
        return replace(NodeParts().settings, controller=controller, registers=self.registers)

    def apply(self, *records: Message) -> None:
        for record in records:
            self.machine.image.apply(record, [])


@pytest.fixture
def harness() -> PeriodicHarness:
    return PeriodicHarness()


def test_expired_tokens_are_removed_after_the_interval(harness: PeriodicHarness) -> None:
    harness.apply(DelegationTokenRecord("User:a", "User:a", [], 0, 1, 1, "token"))
    tokens = harness.machine.image.security.tokens
    harness.runner.activate()
    assert not harness.time.heap.step(0), "nothing is due at once"
    harness.time.pass_ms(INTERVAL_MS - 1)
    assert tokens
    harness.time.pass_ms(1)
    assert not tokens


def test_leaders_are_balanced_after_the_interval(harness: PeriodicHarness) -> None:
    image = harness.machine.image
    for broker_id in (101, 102):
        image.brokers[broker_id] = a_broker(broker_id)
    harness.apply(
        TopicRecord("topic", TOPIC_ID), partition_record(WHERE, Partition((101, 102), (101, 102), 102))
    )
    harness.runner.activate()
    harness.time.pass_ms(INTERVAL_MS)
    partition = image.partition(WHERE)
    assert partition is not None
    assert partition.leader == 101


def lose_leaders(harness: PeriodicHarness, *numbers: int) -> None:
    """Create partitions without leaders, of which broker 101 has a replica that is not eligible."""
    leaderless = Partition((101, 102), (), NO_LEADER, elr=(102,))
    harness.apply(*(partition_record(PartitionId(TOPIC_ID, number), leaderless) for number in numbers))


@pytest.mark.parametrize(
    ("count", "left"), [(MAX_SWEEP_RECORDS - 1, 1), (MAX_SWEEP_RECORDS, 0), (MAX_SWEEP_RECORDS + 1, 0)]
)
def test_unclean_leaders_are_elected_per_interval_and_at_once_after_a_full_sweep(
    harness: PeriodicHarness, count: int, left: int
) -> None:
    image = harness.machine.image
    image.brokers[101] = a_broker(101)
    harness.apply(
        TopicRecord("topic", TOPIC_ID), ConfigRecord(2, "topic", "unclean.leader.election.enable", "true")
    )
    interval_ms = harness.settings.controller.unclean_election_interval_ms
    harness.runner.activate()
    harness.time.pass_ms(interval_ms - 1)
    lose_leaders(harness, *range(count))
    assert len(image.index.leaderless) == count
    assert harness.time.heap.step(harness.time.heap.now_ms + 1)
    assert len(image.index.leaderless) == max(0, count - MAX_SWEEP_RECORDS)
    lose_leaders(harness, count)
    harness.time.pass_ms(interval_ms - 1)
    assert len(image.index.leaderless) == left
    harness.time.pass_ms(1)
    assert not image.index.leaderless


@pytest.mark.parametrize("is_active", [True, False])
@pytest.mark.parametrize("has_space", [True, False])
def test_active_controller_with_space_can_write(
    harness: PeriodicHarness, monkeypatch: pytest.MonkeyPatch, is_active: bool, has_space: bool
) -> None:
    harness.engine.is_leader = is_active
    monkeypatch.setattr(harness.runner.writer, "has_free_space", lambda: has_space)
    assert harness.runner.can_write() is (is_active and has_space)


def test_no_timer_is_left_after_the_leadership(harness: PeriodicHarness) -> None:
    harness.runner.activate()
    harness.runner.on_leadership_lost()
    assert not harness.time.heap.step(1e10)


@pytest.mark.parametrize(("registers", "others"), [(True, [2, 3]), (False, [])])
def test_other_voters_have_to_register_if_this_node_does(registers: bool, others: Sequence[int]) -> None:
    """Features are upgraded only once all controllers have reported what they support."""
    assert list(PeriodicHarness(registers).runner.controller.other_voters()) == others
