"""Records of coordinators: what is read from the log, passed over, or refused; and the offsets that they give."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator.consumer_group import (
    ClassicProtocols,
    ConsumerGroups,
    ConsumerMember,
    member_record,
)
from quorumd.broker.coordinator.offset_store import (
    OffsetStore,
    StoredOffset,
    TopicPartition,
    offset_record,
    offset_tombstone,
)
from quorumd.broker.coordinator.records import (
    LoadedMarker,
    LoadedRecord,
    decode_records,
    encode_records,
)
from quorumd.broker.log.transaction_marker import TransactionMarker, encode_marker
from quorumd.errors import CorruptLog
from quorumd.log.batch_extents import end_offset_of
from quorumd.protocol.coordinator_record import encode_key
from quorumd.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from quorumd.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from quorumd.protocol.messages.offset_commit_key import OffsetCommitKey
from quorumd.protocol.messages.offset_commit_value import OffsetCommitValue
from quorumd.protocol.messages.transaction_log_key import TransactionLogKey
from tests.support.broker.coordinator_shards import group_shard
from tests.support.log.data_batches import produced

T0, T1 = TopicPartition("topic", 0), TopicPartition("topic", 1)
ZSTD = 4
STORED = StoredOffset(7, 3, "text", 1000)


def stored(offset: int, record_offset: int = -1) -> StoredOffset:
    return StoredOffset(offset, 3, "", 1000, record_offset=record_offset)


def test_records_are_read_as_they_were_written() -> None:
    data = encode_records([offset_record("g", T0, STORED), offset_tombstone("g", T1)], 1000, 9, 2)
    first, second = decode_records("group", data)
    assert isinstance(first, LoadedRecord)
    assert isinstance(second, LoadedRecord)
    assert (first.offset, first.key, first.producer_id) == (0, OffsetCommitKey("g", "topic", 0), 9)
    assert (second.offset, second.key, second.value) == (1, OffsetCommitKey("g", "topic", 1), None)
    assert (end_offset_of(data), end_offset_of(b"")) == (2, 0)


@pytest.mark.parametrize("classic", [None, ClassicProtocols(9_000, (("range", b"r"), ("sticky", b"s")))])
def test_protocols_of_classic_members_are_kept(classic: ClassicProtocols | None) -> None:
    member = ConsumerMember(
        "m", client_id="c", topics=frozenset("a"), rebalance_timeout_ms=1, classic=classic
    )
    (loaded,) = decode_records("group", encode_records([member_record("g", member)], 1000))
    assert isinstance(loaded, LoadedRecord)
    groups = ConsumerGroups()
    assert groups.replay(loaded)
    assert groups.groups["g"].members == {"m": member}


def test_marker_ends_a_transaction() -> None:
    for is_commit in (True, False):
        data = encode_marker(9, 2, TransactionMarker(is_commit, 4), 1000)
        assert list(decode_records("group", data)) == [LoadedMarker(0, 9, 2, is_commit)]


def test_records_without_a_key_or_of_unknown_types_are_passed_over() -> None:
    unknown = b"\x7f\xff"
    known = encode_key(OffsetCommitKey("g", "topic", 0))
    data = produced([(None, b""), (unknown, b"v"), (known, None)])
    assert [
        (each.offset, each.key) for each in decode_records("group", data) if isinstance(each, LoadedRecord)
    ] == [(2, OffsetCommitKey("g", "topic", 0))]


@pytest.mark.parametrize(
    "data", [produced(codec=ZSTD), produced([(b"\0\1", b"")]), produced()[:30] + bytes(50)]
)
def test_batch_that_cannot_be_read_is_corruption(data: bytes) -> None:
    with pytest.raises(CorruptLog, match="group coordinator"):
        list(decode_records("group", data))


def test_log_that_cannot_be_read_is_not_loaded() -> None:
    groups = group_shard()
    groups.shards.resigned(0)
    groups.log.append(produced([(b"\0\1", b"")]))
    groups.elect()
    assert groups.shards.active(0).name == "COORDINATOR_LOAD_IN_PROGRESS"  # type: ignore[union-attr]  # an error
    groups.shards.resigned(0)
    assert groups.shards.active(0).name == "NOT_COORDINATOR"  # type: ignore[union-attr]  # an error


def test_offset_with_an_expiry_has_the_version_that_carries_it() -> None:
    record = offset_record("g", T0, STORED._replace(expire_timestamp_ms=5000))
    (loaded,) = decode_records("group", encode_records([record], 1000))
    assert isinstance(loaded, LoadedRecord)
    store = OffsetStore()
    assert store.replay(loaded)
    found = store.find("g", T0)
    assert found is not None
    assert (found.offset, found.leader_epoch, found.expire_timestamp_ms) == (7, -1, 5000)


def test_legacy_offsets_are_read() -> None:
    store = OffsetStore()
    value = LegacyOffsetCommitValue(5, "text", 1000)
    assert store.replay(LoadedRecord(0, LegacyOffsetCommitKey("g", "topic", 0), value))
    assert store.find("g", T0) == StoredOffset(5, -1, "text", 1000)
    assert not store.replay(LoadedRecord(1, TransactionLogKey("t"), None))


def test_deleted_offset_is_removed_from_open_transactions_too() -> None:
    store = OffsetStore()
    store.commit("g", T0, stored(1))
    store.commit("g", T0, stored(2), 9)
    store.commit("g", T1, stored(3), 9)
    store.commit("h", T0, stored(4), 10)
    assert store.pending_groups(9) == ["g"]
    assert store.replay(LoadedRecord(5, OffsetCommitKey("g", "topic", 0), None))
    assert (store.of_group("g"), store.is_unstable("g", T0), store.is_unstable("g", T1)) == ({}, False, True)
    assert [record.key for record in store.tombstones("g")] == [OffsetCommitKey("g", "topic", 1)]
    store.delete("g", T1)
    store.delete("h", T1)
    assert (store.pending_groups(9), store.groups()) == ([], ["h"])


def test_commit_after_a_transaction_wins_over_it() -> None:
    store = OffsetStore()
    store.commit("g", T0, stored(2, 10), 9)
    store.commit("g", T1, stored(2, 11), 9)
    store.commit("g", T0, stored(1, 12))
    store.end_transaction(9, is_commit=True)
    assert [store.of_group("g")[each].offset for each in (T0, T1)] == [1, 2]
    store.commit("g", T0, stored(5, 13), 9)
    store.replay_marker(LoadedMarker(14, 9, 0, False))
    assert store.of_group("g")[T0].offset == 1


def test_value_of_offsets_keeps_the_topic_id() -> None:
    value = OffsetCommitValue(5, 1, "", 1000)
    store = OffsetStore()
    store.replay(LoadedRecord(8, OffsetCommitKey("g", "topic", 0), value))
    assert store.of_group("g")[T0].record_offset == 8
