"""Topics, brokers, epochs and voters of a history."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from quorumd.ids import KafkaUuid
from quorumd.pipeline.history.cluster_fold import ClusterState
from quorumd.pipeline.history.partition_rows import CLEAR_ELR, MIN_ISR, REMOVE
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.kraft_version_record import KRaftVersionRecord
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from quorumd.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.messages.voters_record import TargetVoter
from tests.support.history.reference import Logged
from tests.support.history.rows import cluster_rows, replica_context
from tests.support.log.snapshots import CLUSTER_ID, voters_record

ONE, TWO = KafkaUuid(bytes(15) + b"\x11"), KafkaUuid(bytes(15) + b"\x12")


def log_of(*messages: Any, epoch: int = 1) -> list[Logged]:
    return [Logged(offset, epoch, offset * 1000, message) for offset, message in enumerate(messages)]


def test_recreated_topic_is_a_new_topic() -> None:
    state = ClusterState()
    log = log_of(TopicRecord("t", ONE), RemoveTopicRecord(ONE), TopicRecord("t", TWO))
    context = replica_context(state, log)
    rows = [(row["topic"], row["created_offset"], row["deleted_offset"]) for row in state.topics.values()]
    assert rows == [("t", 0, 1), ("t", 2, None)]
    assert context.names_of(pa.array([TWO, ONE, bytes(16)])).to_pylist() == ["t", "t", None]
    assert (context.bulk_changes.kind, context.bulk_changes.topic_id) == ([REMOVE], [ONE])


def test_topic_min_isr_is_removed_with_topic() -> None:
    state = ClusterState()

    def config(kind: int, name: str, value: str | None, key: str = "min.insync.replicas") -> ConfigRecord:
        return ConfigRecord(kind, name, key, value)

    log = log_of(
        *(config(4, "", "2"), TopicRecord("t", ONE), config(2, "t", "3"), config(4, "1", "5")),
        *(config(2, "t", "x", "retention.ms"), RemoveTopicRecord(ONE), config(4, "", None)),
    )
    context = replica_context(state, log)
    assert state.min_isr == {}
    reported = [(setting.offset, setting.topic, setting.value) for setting in context.settings]
    assert reported == [(0, "", 2), (2, "t", 3), (5, "t", None), (6, "", None)]
    assert context.bulk_changes.kind == [MIN_ISR, MIN_ISR, REMOVE, MIN_ISR]
    assert context.bulk_changes.topic_id == [None, ONE, ONE, None]


def test_elr_is_cleared_for_topic_or_cluster() -> None:
    log = log_of(TopicRecord("t", ONE), ClearElrRecord("t"), ClearElrRecord(""), ClearElrRecord("never was"))
    bulk_changes = replica_context(ClusterState(), log).bulk_changes
    assert (bulk_changes.kind, bulk_changes.topic_id) == ([CLEAR_ELR] * 2, [ONE, None])


def test_broker_records_become_broker_states() -> None:
    state = ClusterState()
    endpoint = BrokerEndpoint("PLAINTEXT", "host", 9092, 0)
    register = RegisterBrokerRecord(7, False, ONE, 10, [endpoint], [], "rack", True, False, [TWO])
    log = log_of(
        *(register, UnfenceBrokerRecord(7, 10), BrokerRegistrationChangeRecord(7, 10, 1)),
        *(BrokerRegistrationChangeRecord(7, 10, -1), BrokerRegistrationChangeRecord(7, 10, 0, 1)),
        *(BrokerRegistrationChangeRecord(7, 10, 0, 0, [ONE]), FenceBrokerRecord(7, 10)),
        *(UnregisterBrokerRecord(7, 10), FenceBrokerRecord(8, 1)),
    )
    state.apply(cluster_rows(log), state.replica_context())
    reported = [(row["event"], row["fenced"], row["from_offset"], row["to_offset"]) for row in state.brokers]
    assert reported == [
        *(
            ("register", True, 0, 1),
            ("unfence", False, 1, 2),
            ("fence", True, 2, 3),
            ("unfence", False, 3, 4),
        ),
        *(("shutdown", False, 4, 5), ("directories", False, 5, 6), ("fence", True, 6, 7)),
        ("unregister", True, 7, 7),
    ]
    first, *_, last = state.brokers
    assert first["endpoints"] == [{"name": "PLAINTEXT", "host": "host", "port": 9092, "security": 0}]
    assert (first["rack"], first["log_dirs"], last["log_dirs"]) == ("rack", [TWO], [ONE])


def test_cordoned_log_directories_are_recorded() -> None:
    state = ClusterState()
    change = BrokerRegistrationChangeRecord
    log = log_of(
        RegisterBrokerRecord(7, False, ONE, 10, log_dirs=[ONE, TWO], cordoned_log_dirs=[ONE]),
        change(7, 10, -1),
        change(7, 10, cordoned_log_dirs=[TWO]),
        change(7, 10, log_dirs=[TWO], cordoned_log_dirs=[]),
        RegisterBrokerRecord(7, False, ONE, 14, log_dirs=[ONE, TWO]),
        change(7, 14),
    )
    state.apply(cluster_rows(log), state.replica_context())
    assert [(row["event"], row["cordoned_log_dirs"]) for row in state.brokers] == [
        *(("register", [ONE]), ("unfence", [ONE]), ("cordon", [TWO]), ("directories", [])),
        *(("register", []), ("other", [])),
    ]


def test_epochs_have_leaders_and_static_voters() -> None:
    state = ClusterState()
    voters = [Voter(1), Voter(2), Voter(3)]
    log = [
        *log_of(LeaderChangeMessage(0, 2, voters, voters[:2]), epoch=4),
        Logged(9, 6, 9000, LeaderChangeMessage(0, 3, voters, voters[1:])),
    ]
    rows = cluster_rows(log)
    for row in rows:
        state.count_epoch(row["epoch"], row, 1, 1)
    state.apply(rows, state.replica_context())
    reported = [
        (row["epoch"], row["leader_id"], row["start_offset"], row["end_offset"], row["granting"])
        for row in state.epochs.values()
    ]
    assert reported == [(4, 2, 0, 9, [1, 2]), (6, 3, 9, None, [2, 3])]
    assert [(row["change"], row["voters"]) for row in state.voters] == [("+1 +2 +3", [1, 2, 3])]


def test_voter_changes_and_targets_are_recorded() -> None:
    state = ClusterState()
    towards = voters_record(1, 2)
    towards.target_voters = [TargetVoter(2), TargetVoter(3)]
    log = log_of(KRaftVersionRecord(0, 1), voters_record(1, 2), towards, voters_record(2, 3))
    state.apply(cluster_rows(log), state.replica_context())
    reported = [(row["change"], row["voters"], row["from_offset"], row["to_offset"]) for row in state.voters]
    assert reported == [("+1 +2", [1, 2], 1, 2), ("towards 2,3", [1, 2], 2, 3), ("+3 -1", [2, 3], 3, None)]
    assert state.cluster_id == CLUSTER_ID
    assert {row["kraft_version"] for row in state.voters} == {1}
