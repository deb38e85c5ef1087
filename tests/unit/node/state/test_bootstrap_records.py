from __future__ import annotations

from random import Random
from typing import Any

import pytest

from quorumd.controller.bootstrap_metadata import feature_records, initial_feature_levels
from quorumd.controller.cluster_image import ALL_BROKERS, ELR_VERSION, METADATA_VERSION, ClusterImage
from quorumd.errors import CorruptLog
from quorumd.ids import ReplicaKey
from quorumd.log.bootstrap_file import encode_bootstrap
from quorumd.node.state.bootstrap_records import load_new_cluster, propose_bootstrap_records
from quorumd.node.state.proposals import Proposals
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.metadata_record import decode_record, encode_record
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from tests.support.log import stock_directory
from tests.support.node.parts import NodeParts

LEVELS = {METADATA_VERSION: 25, ELR_VERSION: 1, "group.version": 1}
ALICE = UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096)


def proposed(
    image: ClusterImage, min_insync_replicas: int = 1, bootstrap: list[Message] | None = None
) -> tuple[Proposals, list[Any]]:
    records: list[Any] = []

    def append(values: Any) -> int:
        records.extend(decode_record(value) for value in values)
        return len(records)

    proposals = Proposals(append, lambda turn: turn(), lambda: True, lambda: 0.0, lambda ms, count: None)
    begins_with = [*feature_records(LEVELS)] if bootstrap is None else bootstrap
    propose_bootstrap_records(NodeParts().machine_around(image), begins_with, min_insync_replicas, proposals)
    return proposals, records


def test_log_without_metadata_version_gets_one() -> None:
    image = ClusterImage()
    proposals, records = proposed(image)
    assert {record.name: record.feature_level for record in records[:3]} == LEVELS
    assert image.features == LEVELS
    proposals.on_leadership_lost()
    assert image.features == {}, "uncommitted records can be rolled back"


def test_new_cluster_has_a_default_of_min_insync_replicas() -> None:
    """Without it every broker would use its own properties file."""
    image = ClusterImage()
    records = proposed(image, 2)[1]
    assert records[3:] == [ConfigRecord(*ALL_BROKERS, "min.insync.replicas", "2")]
    assert image.min_isr("any") == 2


def test_log_of_an_earlier_version_gets_the_default_if_elr_is_enabled() -> None:
    image = ClusterImage()
    image.apply(FeatureLevelRecord(METADATA_VERSION, 25), [])
    assert proposed(image)[1] == []
    image.apply(FeatureLevelRecord(ELR_VERSION, 1), [])
    assert proposed(image)[1] == [ConfigRecord(*ALL_BROKERS, "min.insync.replicas", "1")]
    assert proposed(image, 3)[1] == [], "existing values are kept"


def test_existing_metadata_version_is_kept() -> None:
    image = ClusterImage()
    image.apply(FeatureLevelRecord(METADATA_VERSION, 21), [])
    assert proposed(image)[1] == []


def test_open_transaction_is_aborted_first() -> None:
    image = ClusterImage()
    image.apply(FeatureLevelRecord(METADATA_VERSION, 21), [])
    image.apply(BeginTransactionRecord(), [])
    image.apply(FeatureLevelRecord("group.version", 1), [])
    proposals, records = proposed(image)
    assert [type(record) for record in records] == [AbortTransactionRecord]
    assert not image.in_transaction
    assert image.features == {METADATA_VERSION: 21}
    proposals.on_leadership_lost()
    assert image.in_transaction


def test_open_bootstrap_transaction_is_aborted_and_its_records_are_rewritten() -> None:
    image = ClusterImage()
    image.apply(BeginTransactionRecord(), [])
    image.apply(FeatureLevelRecord(METADATA_VERSION, 21), [])
    records = proposed(image)[1]
    features = [FeatureLevelRecord] * 3
    assert [type(record) for record in records] == [AbortTransactionRecord, *features, ConfigRecord]
    assert image.features == LEVELS


def test_cluster_without_elr_has_no_default_of_min_insync_replicas() -> None:
    """As in Kafka, where brokers may have values of their own."""
    image = ClusterImage()
    records = proposed(image, 2, [FeatureLevelRecord(METADATA_VERSION, 25)])[1]
    assert records == [FeatureLevelRecord(METADATA_VERSION, 25)]
    assert image.config(ALL_BROKERS) == {}


def test_users_added_by_format_are_in_the_log_and_the_image() -> None:
    image = ClusterImage()
    records = proposed(image, 1, [*feature_records(LEVELS), ALICE])[1]
    assert ALICE in records
    assert encode_record(ALICE, 0) in image.opaque_records.values()


def empty_directory() -> SimulatedDisk:
    disk = SimulatedDisk(EventHeap(), Random(1))
    disk.mount(Process("test"))
    disk.make_directory("data")
    return disk


def directory(*records: Message) -> SimulatedDisk:
    disk = empty_directory()
    file = disk.open("data/bootstrap.checkpoint", create=True)
    file.write_at(0, encode_bootstrap([encode_record(record, 0) for record in records], 7))
    return disk


def test_empty_log_starts_with_the_records_of_format() -> None:
    records = [*feature_records(initial_feature_levels("4.0", {})), ALICE]
    assert load_new_cluster(directory(*records), "data", log_is_empty=True).records == records


def test_directory_of_an_earlier_version_starts_with_the_newest_release() -> None:
    newest = feature_records(initial_feature_levels(None, {}))
    assert load_new_cluster(empty_directory(), "data", log_is_empty=True).records == [*newest]


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([ALICE], "metadata.version is missing"),
        ([FeatureLevelRecord(METADATA_VERSION, 34)], "metadata.version 34 is not supported.*21 to 33"),
        ([FeatureLevelRecord(METADATA_VERSION, 30), FeatureLevelRecord("new.version", 1)], "unknown feature"),
    ],
)
def test_file_with_unsupported_features_is_rejected(records: list[Message], reason: str) -> None:
    with pytest.raises(CorruptLog, match=reason):
        load_new_cluster(directory(*records), "data", log_is_empty=True)


def test_damaged_file_is_rejected_with_the_remedy() -> None:
    disk = directory(FeatureLevelRecord(METADATA_VERSION, 30))
    disk.open("data/bootstrap.checkpoint").write_at(100, b"?")
    with pytest.raises(CorruptLog, match="restore the file"):
        load_new_cluster(disk, "data", log_is_empty=True)


def test_empty_log_starts_with_the_checkpoint_of_newer_stock_tools() -> None:
    disk = empty_directory()
    stock_directory.write_checkpoint(disk, "data")
    found = load_new_cluster(disk, "data", log_is_empty=True)
    assert found.records == feature_records(initial_feature_levels("4.1", {}))
    assert found.voters is not None
    assert [voter.key for voter in found.voters.voters] == [ReplicaKey(1, stock_directory.DIRECTORY_ID)]


def test_metadata_in_the_first_snapshot_takes_precedence_as_in_kafka() -> None:
    disk = directory(*feature_records(initial_feature_levels("4.0", {})))
    stock_directory.write_checkpoint(disk, "data")
    found = load_new_cluster(disk, "data", log_is_empty=True)
    assert found.records == feature_records(initial_feature_levels("4.1", {}))


def test_file_of_stock_tools_is_used_only_for_an_empty_log() -> None:
    disk = empty_directory()
    stock_directory.write_checkpoint(disk, "data", stock_directory.CHECKPOINT[:-1])
    with pytest.raises(CorruptLog, match="restore the file"):
        load_new_cluster(disk, "data", log_is_empty=True)
    found = load_new_cluster(disk, "data", log_is_empty=False)
    assert found == ([*feature_records(initial_feature_levels(None, {}))], None)
