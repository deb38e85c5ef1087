"""For any sequence of records, split anywhere, the numpy fold gives the states of a plain Python state machine,
and ends with the partitions of the node's own image."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.ids import KafkaUuid
from quorumd.pipeline.history.cluster_fold import ClusterState
from quorumd.pipeline.history.partition_fold import STATES, fold
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.history.logs import history, reassigned
from tests.support.history.reference import Logged, NaiveHistory
from tests.support.history.rows import no_states, partition_records, plain_states, replica_context
from tests.support.protocol.random_records import partitions_of


def by_time(states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(states, key=lambda state: (state["topic_id"], state["partition"], state["from_offset"]))


@pytest.mark.parametrize("seed", range(40))
def test_states_equal_reference_wherever_log_is_split(seed: int) -> None:
    log, image = history(seed)
    naive = NaiveHistory()
    naive.apply(log)
    lots = Random(-seed)
    cuts = sorted({0, len(log), *(lots.randint(0, len(log)) for _ in range(lots.choice([0, 1, 5])))})
    cluster, states, closed = ClusterState(), no_states(), []
    for low, high in pairwise(cuts):
        context = replica_context(cluster, log[low:high])
        folded = fold(states, partition_records(log[low:high]), context)
        assert folded.orphans == 0
        states = folded.open.cast(STATES.arrow())
        closed.append(folded.closed.cast(STATES.arrow()))
    assert by_time(plain_states(states)) == by_time(list(naive.open.values()))
    assert by_time(plain_states(pa.concat_tables(closed))) == by_time(naive.closed)
    assert image_states(image) == {
        (row["topic_id"], row["partition"]): {name: row[name] for name in FACTS}
        for row in plain_states(states)
    }


FACTS = (
    *("topic", "leader", "leader_epoch", "partition_epoch", "replicas", "isr", "elr", "last_known_elr"),
    *("adding", "removing", "recovering", "under_min_isr"),
)


def image_states(image: ClusterImage) -> dict[tuple[bytes, int], dict[str, Any]]:
    """The node's state of each partition."""
    states = {}
    for where, partition in partitions_of(image).items():
        topic = image.topics[where.topic_id].name
        facts = [topic, partition.leader, partition.leader_epoch, partition.partition_epoch]
        facts += map(list, (partition.replicas, partition.isr, partition.elr, partition.last_known_elr))
        required = min(image.min_isr(topic), len(partition.replicas))
        facts += [list(partition.adding), list(partition.removing), partition.recovery == 1]
        facts += [len(partition.isr) < required]
        states[where.topic_id, where.number] = dict(zip(FACTS, facts, strict=True))
    return states


def test_cancelled_and_completed_reassignments_are_distinguished() -> None:
    folded = fold(no_states(), partition_records(reassigned()), replica_context(ClusterState(), reassigned()))
    tables = [table.cast(STATES.arrow()) for table in (folded.closed, folded.open)]
    causes: dict[tuple[str, int], list[str]] = {}
    for state in by_time(plain_states(pa.concat_tables(tables))):
        causes.setdefault((state["topic"], state["partition"]), []).append(state["cause"])
    assert causes == {
        ("t", 0): ["created", "reassign_start", "isr_shrink", "reassign_done"],
        ("t", 1): ["created", "reassign_start", "isr_shrink", "reassign_cancelled"],
        ("t", 2): ["created", "reassign_start", "reassign_start", "reassign_cancelled"],
        ("t", 3): ["created", "reassign_start", "unclean"],
        ("t", 4): ["created", "reassign_start", "isr_shrink"],
        ("u", 0): ["created", "reassign_start", "deleted"],
    }


def test_log_without_partitions_has_no_states() -> None:
    folded = fold(no_states(), partition_records([]), replica_context(ClusterState(), []))
    assert folded.closed.num_rows == folded.open.num_rows == folded.orphans == 0
    assert folded.open.cast(STATES.arrow()).schema.equals(STATES.arrow())


def test_every_partition_id_has_its_own_states() -> None:
    one, two = KafkaUuid(bytes(15) + b"\1"), KafkaUuid(bytes(15) + b"\2")
    numbers = (0, -1, 2**31 - 1, -(2**31), 5)
    made = [TopicRecord("a", one), TopicRecord("b", two)]
    made += [PartitionRecord(number, topic_id, [1], [1]) for topic_id in (one, two) for number in numbers]
    log = [Logged(offset, 1, offset * 1000, message) for offset, message in enumerate(made)]
    folded = fold(no_states(), partition_records(log), replica_context(ClusterState(), log))
    found = [(row["topic"], row["partition"]) for row in plain_states(folded.open.cast(STATES.arrow()))]
    assert sorted(found) == sorted((topic, number) for topic in "ab" for number in numbers)
    few = [each for each in log if getattr(each.message, "partition_id", 0) in (-1, 0, 5)]
    counts = fold(no_states(), partition_records(few), replica_context(ClusterState(), few)).partition_counts
    assert counts == {bytes(one): 6, bytes(two): 6}


def test_changes_of_unknown_partitions_are_counted_without_state() -> None:
    log, _ = history(1)
    changes = [logged for logged in log if type(logged.message).__name__ == "PartitionChangeRecord"]
    folded = fold(no_states(), partition_records(changes), replica_context(ClusterState(), []))
    assert folded.orphans == len(changes)
    assert folded.closed.num_rows == folded.open.num_rows == 0


def test_change_after_topic_removal_is_ignored() -> None:
    topic_id = KafkaUuid(bytes(15) + b"\x07")
    messages = [
        TopicRecord("t", topic_id),
        PartitionRecord(0, topic_id, [1, 2], [1, 2], [], [], 1, 0, 0, 0, []),
        RemoveTopicRecord(topic_id),
        PartitionChangeRecord(0, topic_id, [1]),
    ]
    log = [Logged(offset, 1, offset * 1000, message) for offset, message in enumerate(messages)]
    folded = fold(no_states(), partition_records(log), replica_context(ClusterState(), log))
    assert [state["cause"] for state in by_time(plain_states(folded.closed))] == ["created", "deleted"]
    assert (folded.open.num_rows, folded.orphans) == (0, 1)
