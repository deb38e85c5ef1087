"""quorumd.pipeline.decode: the rows, and that only requested columns are built."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.pipeline.decode import decode_records, plain_rows
from quorumd.pipeline.scan.batches import Batches, scan
from quorumd.pipeline.tables.schemas import RECORDS
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.json_values import HIDDEN
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from scripts.log_generator import LogShape, chunks

ID = KafkaUuid(bytes(range(16)))
VALUES = (
    encode_record(PartitionRecord(4, ID, [1, 2, 3], [1, 2], [], [], 1, 0, 7, 8, [ZERO_UUID, ID, ID]), 1),
    encode_record(PartitionChangeRecord(4, ID, isr=[1], original_replicas=[9, 8]), 2),
    encode_record(TopicRecord("orders", ID), 0),
    encode_record(BrokerRegistrationChangeRecord(3, 99, fenced=1), 1),
    encode_record(NoOpRecord(), 0),
    encode_record(ConfigRecord(2, "orders", "retention.ms", "7"), 0),
    encode_record(UnfenceBrokerRecord(3, 98), 0),
    b"\x01\x63\x00rest",
    b"\x01\x03\x09rest",
    b"\x01\x03\x01cut",
    b"",
)
LEADER_CHANGE = LeaderChangeMessage(0, 2, [Voter(1), Voter(2)], [Voter(2)])
LOG = (
    encode_control_batch(5, 3, 1_000, [encode_control(LEADER_CHANGE), (b"\0\0\0\7", b"new")])
    + encode_batch(7, 3, 2_000, VALUES)
)  # fmt: skip


def batches_of(data: bytes) -> Batches:
    scanned = scan(data)
    assert scanned.faults == []
    return scanned.batches


def rows_of(data: bytes, **options: Any) -> list[dict[str, Any]]:
    table = decode_records(data, batches_of(data), 1, "00.log", 100, **options)
    table.validate(full=True)
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def reported(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of the record itself."""
    around = {"node", "segment", "position", "offset", "base_offset", "epoch", "ts", "control"}
    return {name: value for name, value in row.items() if name not in around}


def test_secrets_of_credentials_are_hidden() -> None:
    record = UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096)
    (row,) = rows_of(encode_batch(7, 3, 2_000, [encode_record(record, 0)]))
    assert json.loads(row["data"]) == {
        "name": "alice",
        "mechanism": 1,
        "salt": HIDDEN,
        "storedKey": HIDDEN,
        "serverKey": HIDDEN,
        "iterations": 4096,
    }
    assert not {"raw", "value"} & row.keys()


def test_record_has_batch_columns() -> None:
    first, *_, last = rows_of(LOG)
    assert (first["node"], first["segment"], first["position"]) == (1, "00.log", 100)
    assert last["position"] == 100 + int(batches_of(LOG).position[1])
    assert (first["offset"], first["base_offset"], first["epoch"], first["control"]) == (5, 5, 3, True)
    assert (last["offset"], last["base_offset"], last["control"]) == (17, 7, False)
    assert last["ts"].timestamp() == 2.0


def test_fields_of_records_are_decoded() -> None:
    rows = [reported(row) for row in rows_of(LOG)]
    assert rows[0] == {
        "type": 2,
        "type_name": "LeaderChangeMessage",
        "leader": 2,
        "data": '{"version":0,"leaderId":2,"voters":[{"voterId":1,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"},'
        '{"voterId":2,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}],"grantingVoters":[{"voterId":2,'
        '"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}]}',
    }
    assert rows[1] == {"type": 7, "raw": b"new"}
    assert rows[2] == {
        "type": 3,
        "type_name": "PartitionRecord",
        "version": 1,
        "partition": 4,
        "topic_id": bytes(ID),
        "replicas": [1, 2, 3],
        "isr": [1, 2],
        "removing": [],
        "adding": [],
        "leader": 1,
        "recovering": 0,
        "leader_epoch": 7,
        "partition_epoch": 8,
        "directories": [bytes(ZERO_UUID), bytes(ID), bytes(ID)],
    }
    assert rows[3] == {
        "type": 5,
        "type_name": "PartitionChangeRecord",
        "version": 2,
        "partition": 4,
        "topic_id": bytes(ID),
        "isr": [1],
        "original_replicas": [9, 8],
    }
    assert rows[4]["topic"] == "orders"
    assert (rows[5]["broker_id"], rows[5]["broker_epoch"], rows[5]["fenced"]) == (3, 99, 1)
    assert rows[6] == {"type": 20, "type_name": "NoOpRecord", "version": 0}
    assert rows[7]["data"] == '{"resourceType":2,"resourceName":"orders","name":"retention.ms","value":"7"}'
    assert rows[8]["fenced"] == -1
    assert rows[9] == {"type": 99, "version": 0, "raw": b"\x01\x63\x00rest"}
    assert rows[10] == {"type": 3, "type_name": "PartitionRecord", "version": 9, "raw": b"\x01\x03\x09rest"}
    assert rows[11]["fault"].startswith("BAD_RECORD: PartitionRecord v1")
    assert rows[11]["raw"] == b"\x01\x03\x01cut"
    assert rows[12]["fault"].startswith("BAD_RECORD: ")


def test_rows_equal_rows_of_codec() -> None:
    data = LOG + b"".join(chunk.data for chunk in chunks(LogShape(records=4_000, topics=4, partitions=4)))
    batches = scan(data).batches
    table = decode_records(data, batches, 1, "00.log", 100)
    expected = pa.RecordBatch.from_pylist(plain_rows(data, batches, 1, "00.log", 100), table.schema)
    assert table.schema == RECORDS.arrow()
    assert table.num_rows > 4_000
    for name in table.schema.names:
        assert table.column(name).equals(expected.column(name)), name


def test_requested_columns_equal_full_decode() -> None:
    whole = decode_records(LOG, batches_of(LOG), 1, None, None)
    for names in (
        ("isr", "offset"),
        ("type_name",),
        ("offset",),
        ("type", "version", "ts"),
        ("fault", "data"),
        (),
    ):
        some = decode_records(LOG, batches_of(LOG), 1, None, None, names)
        assert some.schema.names == list(names)
        for name in names:
            assert some.column(name).equals(whole.column(name)), name
    with pytest.raises(KeyError):
        decode_records(LOG, batches_of(LOG), 1, None, None, ("nothing",))


def test_packed_lists_are_little_endian_bytes() -> None:
    rows = rows_of(LOG, packed=True)
    assert rows[2]["replicas"] == b"\1\0\0\0\2\0\0\0\3\0\0\0"
    assert rows[2]["removing"] == b""
    assert "replicas" not in rows[3]
    table = decode_records(LOG, batches_of(LOG), 1, None, None, packed=True)
    assert table.schema == RECORDS.packed().arrow()


def test_live_rows_have_no_position() -> None:
    table = decode_records(LOG, batches_of(LOG), 1, None, None)
    assert table.column("segment").null_count == table.column("position").null_count == table.num_rows


def test_batches_with_wrong_crc_have_no_rows() -> None:
    data = bytearray(LOG)
    data[-3] ^= 1
    batches = scan(bytes(data)).batches
    assert decode_records(bytes(data), batches, 1, None, None).num_rows == 2
    assert len(plain_rows(bytes(data), batches, 1, None, None)) == 2


def test_empty_input_has_no_rows() -> None:
    table = decode_records(b"", scan(b"").batches, 1, None, None)
    assert table.num_rows == 0
    assert table.schema == RECORDS.arrow()
