"""Producer snapshots, transaction indexes, checkpoints and the clean-shutdown file, byte by byte."""

from __future__ import annotations

from struct import pack

import pytest
from crc32c import crc32c

from quorumd.broker.log.clean_shutdown import (
    previous_broker_epoch,
    read_broker_epoch,
    remove_clean_shutdown,
    was_clean,
    write_clean_shutdown,
)
from quorumd.broker.log.leader_epochs import LeaderEpochs
from quorumd.broker.log.offset_checkpoint import HIGH_WATERMARKS, OffsetCheckpoint
from quorumd.broker.log.producer_snapshot import decode_snapshot, encode_snapshot, parse_snapshot_name
from quorumd.broker.log.producer_state import AbortedTransaction, ProducerEntry, ProducerStates
from quorumd.broker.log.records import decompressed, record_spans
from quorumd.broker.log.transaction_index import decode_entries, encode_entries
from quorumd.broker.log.transaction_marker import TransactionMarker, encode_marker, read_marker
from quorumd.errors import CorruptLog, MalformedMessage
from quorumd.ids import OffsetAndEpoch
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.ports import Disk
from quorumd.protocol.batch_header import read_header
from tests.support.log.data_batches import produced


def producer() -> ProducerEntry:
    states = ProducerStates()
    for sequence, offset in ((0, 100), (3, 103)):
        batch = read_header(
            produced(
                [(b"k", b"v")] * 3, producer_id=11, producer_epoch=2, sequence=sequence, transactional=True
            )
        )
        batch.base_offset, batch.end_offset = offset, offset + 3
        states.update(batch, None)
    return states.entries[11]


def test_producer_snapshot_has_the_last_batch_of_each_producer() -> None:
    entry = pack(">qhiqiqiq", 11, 2, 5, 105, 2, 1000, -1, 100)
    rest = pack(">i", 1) + entry
    assert encode_snapshot([producer()]) == pack(">hI", 1, crc32c(rest)) + rest


def test_producer_snapshot_round_trip() -> None:
    idle = ProducerEntry(12, 7, 4, 999)
    [first, second] = decode_snapshot(encode_snapshot([producer(), idle]))
    assert (first.epoch, first.last_sequence, first.transaction_start) == (2, 5, 100)
    assert first.batches == producer().batches[-1:]
    assert (second.epoch, second.coordinator_epoch, second.last_timestamp_ms) == (7, 4, 999)
    assert (second.batches, second.transaction_start) == ([], -1)


def test_damaged_producer_snapshots_are_rejected() -> None:
    data = encode_snapshot([producer()])
    for length in (0, 5, len(data) - 1):
        with pytest.raises(MalformedMessage):
            decode_snapshot(data[:length])
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 4
        with pytest.raises(MalformedMessage):
            decode_snapshot(bytes(changed))


def test_snapshot_names() -> None:
    assert parse_snapshot_name("00000000000000000042.snapshot") == 42
    assert parse_snapshot_name("00000000000000000042-0000000001.checkpoint") is None


def test_transaction_index() -> None:
    entries = [AbortedTransaction(1, 5, 9, 7), AbortedTransaction(2, 7, 12, 13)]
    data = encode_entries(entries)
    assert data[:34] == pack(">hqqqq", 0, 1, 5, 9, 7)
    assert decode_entries(data) == entries
    assert decode_entries(b"") == []
    assert decode_entries(data[:-1]) is None
    assert decode_entries(data[34:] + data[:34]) is None
    assert decode_entries(b"\1" + data[1:]) is None


def test_marker_round_trip() -> None:
    for marker in (TransactionMarker(True, 3), TransactionMarker(False, 2**31 - 1)):
        data = encode_marker(5, 2, marker, 1234)
        batch = read_header(data)
        assert batch.is_control
        assert batch.is_transactional
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 2, -1)
        assert read_marker(data, batch) == marker


def test_marker_that_compaction_removed() -> None:
    data = encode_marker(5, 2, TransactionMarker(True, 3), 1234)
    batch = read_header(data)
    batch.count = 0
    assert read_marker(data, batch) is None


def test_records_of_a_batch_are_found() -> None:
    records = [(b"key", b"value"), (None, b""), (b"", None)]
    for codec in (0, 1):
        data = produced(records, timestamps=[5, 9, 7], codec=codec)
        batch = read_header(data)
        payload = decompressed(data, batch)
        assert payload is not None
        found = list(record_spans(payload, 3))
        assert [span.offset_delta for span in found] == [0, 1, 2]
        assert [span.timestamp_delta for span in found] == [0, 4, 2]
        keys = [payload[s.key_start : s.key_end] if s.key_start >= 0 else None for s in found]
        values = [payload[s.value_start : s.value_end] if s.value_start >= 0 else None for s in found]
        assert list(zip(keys, values, strict=True)) == records
        for position in range(len(payload)):
            with pytest.raises(MalformedMessage):
                list(record_spans(payload[:position], 3))


def test_codec_without_decoder_is_opaque() -> None:
    data = produced(codec=0)
    batch = read_header(data)
    batch.attributes = 4
    assert decompressed(data, batch) is None


def test_offset_checkpoint(disk: Disk, directory: str) -> None:
    checkpoint = OffsetCheckpoint(disk, directory, HIGH_WATERMARKS)
    assert checkpoint.load() == {}
    checkpoint.save({("b", 1): 7, ("a", 10): 2**40})
    assert (
        read_whole(disk, f"{directory}/replication-offset-checkpoint") == b"0\n2\na 10 1099511627776\nb 1 7\n"
    )
    assert checkpoint.load() == {("a", 10): 2**40, ("b", 1): 7}
    checkpoint.save({})
    assert checkpoint.load() == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"0\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0 -1\n", b"0\n1\na 0 99999999999999999999\n"],
)
def test_invalid_offset_checkpoints_are_reported(disk: Disk, directory: str, content: bytes) -> None:
    write_atomically(disk, f"{directory}/{HIGH_WATERMARKS}", content)
    with pytest.raises(CorruptLog, match=HIGH_WATERMARKS):
        OffsetCheckpoint(disk, directory, HIGH_WATERMARKS).load()


def test_clean_shutdown_file(disk: Disk, directory: str) -> None:
    assert not was_clean(disk, directory)
    assert read_broker_epoch(disk, directory) == -1
    write_clean_shutdown(disk, directory, 42)
    assert read_whole(disk, f"{directory}/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    assert was_clean(disk, directory)
    assert read_broker_epoch(disk, directory) == 42
    remove_clean_shutdown(disk, directory)
    remove_clean_shutdown(disk, directory)
    assert not was_clean(disk, directory)


def test_unreadable_clean_shutdown_file_has_no_epoch(disk: Disk, directory: str) -> None:
    for content in (b"", b"[]", b"{", b'{"brokerEpoch":"7"}'):
        write_atomically(disk, f"{directory}/.kafka_cleanshutdown", content)
        assert was_clean(disk, directory)
        assert read_broker_epoch(disk, directory) == -1


def test_previous_broker_epoch_is_that_of_all_directories() -> None:
    assert previous_broker_epoch([5, 5]) == 5
    assert previous_broker_epoch([5, -1]) == -1
    assert previous_broker_epoch([]) == -1


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    found = LeaderEpochs()
    for epoch, start in entries:
        found.assign(epoch, start)
    return found


def test_end_of_epoch() -> None:
    """Kafka's lookup of the OffsetForLeaderEpoch API."""
    known = epochs((2, 10), (5, 20), (6, 30))
    ends = {epoch: known.end_of_epoch(epoch, 40) for epoch in range(-1, 8)}
    assert ends == {
        -1: None,
        0: OffsetAndEpoch(10, 0),
        1: OffsetAndEpoch(10, 1),
        2: OffsetAndEpoch(20, 2),
        3: OffsetAndEpoch(20, 2),
        4: OffsetAndEpoch(20, 2),
        5: OffsetAndEpoch(30, 5),
        6: OffsetAndEpoch(40, 6),
        7: None,
    }
    assert epochs().end_of_epoch(0, 0) is None
    assert [known.epoch_of(offset) for offset in (9, 10, 19, 20, 35)] == [-1, 2, 2, 5, 6]


def test_new_epoch_replaces_one_without_records() -> None:
    assert epochs((2, 10), (5, 20), (6, 20)).entries() == [(2, 10), (6, 20)]
    assert epochs((2, 10), (5, 20), (4, 30)).entries() == [(2, 10), (4, 30)]
    known = epochs((2, 10))
    assert not known.assign(2, 15)
    assert known.entries() == [(2, 10)]


def test_truncation_and_start_of_epochs() -> None:
    known = epochs((2, 10), (5, 20), (6, 30))
    assert not known.truncate(31)
    assert known.truncate(30)
    assert known.set_start(25)
    assert known.entries() == [(5, 25)]
    assert not known.set_start(25)
    assert not known.set_start(3)
    assert known.entries() == [(5, 25)]


def test_epoch_checkpoint_round_trip_and_damage() -> None:
    known = epochs((0, 0), (5, 20))
    assert known.encode() == b"0\n2\n0 0\n5 20\n"
    loaded = LeaderEpochs()
    assert loaded.decode(known.encode())
    assert loaded.entries() == known.entries()
    for content in (
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\nx 3\n",
        b"0\n2\n5 20\n4 30\n",
        b"0\n2\n4 20\n5 20\n",
    ):
        assert not loaded.decode(content)
    assert loaded.entries() == known.entries()
