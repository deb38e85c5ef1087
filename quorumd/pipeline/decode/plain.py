"""Decodes rows of schemas.RECORDS one record at a time, with the node's own codec.

It is the oracle of the vectorised decoder, and decodes what that decoder leaves out: rare types, and malformed
records, whose faults only the codec can describe.

A row is a dict of the columns that are not null: lists of ids as lists, uuids as bytes, `ts` in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.pipeline.scan.batches import Batches, Data
from quorumd.pipeline.tables.schemas import Row
from quorumd.protocol import messages, record_batch
from quorumd.protocol.batch_header import NO_PRODUCER, BatchHeader
from quorumd.protocol.control_record import VALUE_VERSION, ControlType, control_type, decode_control
from quorumd.protocol.json_values import plain
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.metadata_record import FRAME_VERSION, decode_frame
from quorumd.protocol.primitives import read_uvarint
from quorumd.protocol.record_batch import Record
from quorumd.protocol.wire import Message

LATEST_MS = (2**63 - 1) // 1000
"""Later times, and times before its negative, do not fit the column `ts`."""
_LARGEST_INT16 = 2**15 - 1

CONTROL_NAMES = {
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}

_PARTITION = {
    "partition": "partition_id",
    "topic_id": "topic_id",
    "replicas": "replicas",
    "isr": "isr",
    "elr": "eligible_leader_replicas",
    "last_known_elr": "last_known_elr",
    "adding": "adding_replicas",
    "removing": "removing_replicas",
    "original_replicas": "original_replicas",
    "directories": "directories",
    "leader": "leader",
    "recovering": "leader_recovery_state",
}
_BROKER = {"broker_id": "broker_id", "broker_epoch": "broker_epoch"}
_OLD_BROKER = {"broker_id": "id", "broker_epoch": "epoch"}
COLUMNS: dict[str, dict[str, str]] = {
    "PartitionRecord": {**_PARTITION, "leader_epoch": "leader_epoch", "partition_epoch": "partition_epoch"},
    "PartitionChangeRecord": _PARTITION,
    "TopicRecord": {"topic": "name", "topic_id": "topic_id"},
    "RemoveTopicRecord": {"topic_id": "topic_id"},
    "BrokerRegistrationChangeRecord": {
        **_BROKER,
        "fenced": "fenced",
        "in_controlled_shutdown": "in_controlled_shutdown",
    },
    "FenceBrokerRecord": _OLD_BROKER,
    "UnfenceBrokerRecord": _OLD_BROKER,
    "UnregisterBrokerRecord": _BROKER,
    "RegisterBrokerRecord": _BROKER,
    "LeaderChangeMessage": {"leader": "leader_id"},
    "NoOpRecord": {},
}
"""The columns of each type, and the fields they come from."""


def plain_rows(
    data: Data, batches: Batches, node: int, segment: str | None, position: int | None
) -> list[Row]:
    """Return the rows of all batches with a matching CRC, as decode_records does; never raises for malformed
    bytes."""
    rows: list[Row] = []
    whole = bytes(data)
    for index in range(len(batches)):
        if batches.sound[index]:
            place: Row = {"node": node}
            if segment is not None:
                place["segment"] = segment
            if position is not None:
                place["position"] = position + int(batches.position[index])
            rows += (place | row for row in batch_rows(whole, batches, index))
    return rows


def batch_rows(data: bytes, batches: Batches, index: int) -> Iterator[Row]:
    """Yield the rows of one batch without their place; if it cannot be read to its end, the last row has the
    fault."""
    header = _header(batches, index)
    shared: Row = {
        "base_offset": header.base_offset,
        "epoch": header.epoch,
        "control": header.is_control,
    }
    offset = header.base_offset
    try:
        for record in record_batch.records(data, header):
            row = shared | {"offset": record.offset} | _time(record.timestamp_ms)
            yield row | record_row(record, header.is_control)
            offset = record.offset + 1
    except MalformedMessage as error:
        yield shared | {"offset": offset, "fault": f"BAD_RECORD: {error}"} | _time(header.timestamp_ms)


def _header(batches: Batches, index: int) -> BatchHeader:
    return BatchHeader(
        int(batches.position[index]),
        int(batches.size[index]),
        int(batches.base_offset[index]),
        int(batches.end_offset[index]),
        int(batches.epoch[index]),
        int(batches.stored_crc[index]),
        int(batches.attributes[index]),
        int(batches.base_timestamp[index]),
        int(batches.max_timestamp[index]),
        NO_PRODUCER,
        -1,
        -1,
        int(batches.count[index]),
    )


def _time(timestamp_ms: int) -> Row:
    return {"ts": timestamp_ms * 1000} if abs(timestamp_ms) <= LATEST_MS else {}


def record_row(record: Record, is_control: bool) -> Row:
    """Return the columns of the record itself: its type, and its fields or its fault."""
    value = record.value or b""
    row = _control_type(record.key or b"") if is_control else _frame(value)
    try:
        if is_control:
            return row | _fields(decode_control(record.key or b"", value), VALUE_VERSION)
        return row | _fields(*decode_frame(value))
    except UnsupportedVersion:
        return row | {"raw": value}
    except MalformedMessage as error:
        return row | {"raw": value, "fault": f"BAD_RECORD: {error}"}


def _control_type(key: bytes) -> Row:
    try:
        number = control_type(key)
    except MalformedMessage:
        return {}
    name = CONTROL_NAMES.get(ControlType(number)) if number in CONTROL_NAMES else None
    return {"type": number} | ({"type_name": name} if name else {})


def _frame(value: bytes) -> Row:
    """Return type and version as far as the frame can be read and they fit their columns."""
    row: Row = {}
    try:
        frame_version, position = read_uvarint(value, 0)
        if frame_version == FRAME_VERSION:
            api_key, position = read_uvarint(value, position)
            if api_key <= _LARGEST_INT16:
                row["type"] = api_key
            if api_key in messages.RECORDS:
                row["type_name"] = messages.RECORDS[api_key]
            version, position = read_uvarint(value, position)
            if version <= _LARGEST_INT16:
                row["version"] = version
    except (IndexError, MalformedMessage):
        pass
    return row


def _fields(message: Message, version: int) -> Row:
    columns = COLUMNS.get(message.NAME)
    row: Row = {}
    for column, field in (columns or {}).items():
        value = getattr(message, field)
        if value is not None and version >= _SINCE.get((message.NAME, column), 0):
            row[column] = value
    _adjust(message, row)
    if columns is None or message.NAME in _ALSO_DATA:
        row["data"] = as_json(message)
    return row


def as_json(message: Message) -> str:
    """Return all fields as JSON on one line."""
    return json.dumps(plain(message), separators=(",", ":"))


_SINCE = {
    ("PartitionRecord", "directories"): 1,
    ("BrokerRegistrationChangeRecord", "in_controlled_shutdown"): 1,
}
"""The first version with a column, for fields whose default is not null."""
_ALSO_DATA = {"RegisterBrokerRecord", "LeaderChangeMessage"}


def _adjust(message: Message, row: Row) -> None:
    """Convert fields whose columns have another encoding; -2 and -1 in a change mean unchanged, like null lists."""
    if isinstance(message, PartitionChangeRecord):
        if message.leader == -2:
            del row["leader"]
        if message.leader_recovery_state == -1:
            del row["recovering"]
    elif isinstance(message, BrokerRegistrationChangeRecord):
        if message.log_dirs or message.cordoned_log_dirs is not None:
            row["data"] = as_json(message)
    elif isinstance(message, RegisterBrokerRecord):
        row["fenced"] = 1 if message.fenced else -1
        row["in_controlled_shutdown"] = int(message.in_controlled_shutdown)
    elif isinstance(message, FenceBrokerRecord | UnfenceBrokerRecord):
        row["fenced"] = 1 if isinstance(message, FenceBrokerRecord) else -1
