"""Elections are recognized by the record of the partition's change."""

from __future__ import annotations

import pytest

from quorumd.controller.elections import UncleanElection, is_eligible_election, unclean_election
from quorumd.controller.partition import NO_LEADER, Partition, partition_record
from quorumd.controller.partition_change import RECOVERING
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from tests.support.controller.partition_harness import TOPIC, TOPIC_ID, WHERE, PartitionHarness


def before(isr: tuple[int, ...], elr: tuple[int, ...] = (), last: tuple[int, ...] = ()) -> PartitionHarness:
    """A partition of brokers 1 to 3, led by the first in-sync replica."""
    harness = PartitionHarness([1, 2, 3])
    leader = isr[0] if isr else NO_LEADER
    partition = Partition((1, 2, 3), isr, leader, 1, 1, elr=elr, last_known_elr=last)
    harness.controller.image.apply(partition_record(WHERE, partition), [])
    return harness


def election(leader: int, recovery: int = 0) -> PartitionChangeRecord:
    record = PartitionChangeRecord(0, TOPIC_ID)
    record.leader, record.isr = leader, [leader] if leader >= 0 else None
    record.leader_recovery_state = recovery
    return record


@pytest.mark.parametrize(
    ("harness", "record", "expected"),
    [
        (before((1,)), election(2, RECOVERING), UncleanElection(TOPIC, 0, 2, False)),
        (before((), last=(2,)), election(2, RECOVERING), UncleanElection(TOPIC, 0, 2, True)),
        (before((1,), last=(2,)), election(2, RECOVERING), UncleanElection(TOPIC, 0, 2, False)),
        (before((1,)), election(2), None),
        (before((1, 2)), election(2, RECOVERING), None),
        (before((), elr=(2,)), election(2, RECOVERING), None),
        (before((1,)), election(NO_LEADER), None),
    ],
)
def test_unclean_election(
    harness: PartitionHarness, record: PartitionChangeRecord, expected: UncleanElection | None
) -> None:
    assert unclean_election(harness.controller.image, record) == expected


@pytest.mark.parametrize(
    ("harness", "record", "expected"),
    [
        (before((), elr=(2,)), election(2), True),
        (before((1,), elr=(2,)), election(3), False),
        (before((1, 2)), election(2), False),
        (before((), elr=(2,)), election(NO_LEADER), False),
    ],
)
def test_eligible_election(harness: PartitionHarness, record: PartitionChangeRecord, expected: bool) -> None:
    assert is_eligible_election(harness.controller.image, record) is expected


def test_broker_with_id_0_is_elected_like_others() -> None:
    harness = PartitionHarness([0, 1])
    image = harness.controller.image
    image.apply(partition_record(WHERE, Partition((0, 1), (1,), 1, 1, 1)), [])
    assert unclean_election(image, election(0, RECOVERING)) == UncleanElection(TOPIC, 0, 0, False)
    image.apply(partition_record(WHERE, Partition((0, 1), (), NO_LEADER, 1, 1, elr=(0,))), [])
    assert is_eligible_election(image, election(0))


def test_partition_equality_and_text() -> None:
    one, same = (Partition((1, 2), (1,), 1, 4, 5) for _ in range(2))
    assert {one, same} == {one}
    assert "leader_epoch=4" in repr(one)
