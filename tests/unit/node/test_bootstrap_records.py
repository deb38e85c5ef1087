from __future__ import annotations

from typing import Any

from quorumd.controller.cluster_image import ELR_VERSION, METADATA_VERSION, ClusterImage
from quorumd.node.bootstrap_records import propose_bootstrap_records
from quorumd.node.proposals import Proposals
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.metadata_record import decode_record


def proposed(image: ClusterImage) -> tuple[Proposals, list[Any]]:
    records: list[Any] = []

    def append(values: Any) -> int:
        records.extend(decode_record(value) for value in values)
        return len(records)

    proposals = Proposals(append, lambda turn: turn(), lambda: True, lambda: 0.0, lambda ms, count: None)
    propose_bootstrap_records(image, proposals)
    return proposals, records


def test_a_log_without_metadata_version_gets_one() -> None:
    image = ClusterImage()
    proposals, records = proposed(image)
    levels = {METADATA_VERSION: 25, ELR_VERSION: 1}
    assert {record.name: record.feature_level for record in records} == levels
    assert image.features == levels
    proposals.lost()
    assert image.features == {}, "as long as it is not committed it can be taken back"


def test_a_metadata_version_that_is_there_stays() -> None:
    image = ClusterImage()
    image.apply(FeatureLevelRecord(METADATA_VERSION, 21), [])
    assert proposed(image)[1] == []


def test_a_transaction_that_is_open_is_aborted_first() -> None:
    image = ClusterImage()
    image.apply(FeatureLevelRecord(METADATA_VERSION, 21), [])
    image.apply(BeginTransactionRecord(), [])
    image.apply(FeatureLevelRecord("group.version", 1), [])
    proposals, records = proposed(image)
    assert [type(record) for record in records] == [AbortTransactionRecord]
    assert not image.in_transaction
    assert image.features == {METADATA_VERSION: 21}
    proposals.lost()
    assert image.in_transaction


def test_a_transaction_of_the_first_records_is_aborted_and_they_are_written_again() -> None:
    image = ClusterImage()
    image.apply(BeginTransactionRecord(), [])
    image.apply(FeatureLevelRecord(METADATA_VERSION, 21), [])
    records = proposed(image)[1]
    assert [type(record) for record in records] == [AbortTransactionRecord, *[FeatureLevelRecord] * 2]
    assert image.features == {METADATA_VERSION: 25, ELR_VERSION: 1}
