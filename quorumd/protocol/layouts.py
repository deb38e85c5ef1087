"""Kafka's binary layouts other than messages, declared with construct.

They describe the bytes that `record_batch`, `control_record` and the log's indexes read and write by hand, and are
the independent oracle that those are tested against. They are 50 times slower: only inspection and tests use them,
never a running node.

All integers are big-endian. `Varint` is the zigzag varint of records, at most 64 bits.
"""

from __future__ import annotations

from construct import (
    BitsInteger,
    BitStruct,
    Bytes,
    Computed,
    Const,
    Flag,
    GreedyRange,
    If,
    Int8sb,
    Int16sb,
    Int32sb,
    Int32ub,
    Int64sb,
    Padding,
    Prefixed,
    Rebuild,
    Struct,
    Terminated,
    ZigZag,
    this,
)

Varint = ZigZag

BatchAttributes = BitStruct(
    "unused" / Padding(9),
    "has_delete_horizon" / Flag,
    "is_control" / Flag,
    "is_transactional" / Flag,
    "timestamp_is_append_time" / Flag,
    "compression" / BitsInteger(3),
)
"""Compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""

BatchHeader = Struct(
    "base_offset" / Int64sb,
    "length" / Int32sb,  # of everything after this field
    "epoch" / Int32sb,  # of the leader that appended the batch
    "magic" / Const(2, Int8sb),
    "crc" / Int32ub,  # CRC-32C of everything after this field
    "attributes" / BatchAttributes,
    "last_offset_delta" / Int32sb,
    "base_timestamp" / Int64sb,  # Unix milliseconds
    "max_timestamp" / Int64sb,
    "producer_id" / Int64sb,  # -1: none
    "producer_epoch" / Int16sb,  # -1: none
    "base_sequence" / Int32sb,  # -1: none
    "record_count" / Int32sb,
)

RecordBody = Struct(
    "attributes" / Const(0, Int8sb),
    "timestamp_delta" / Varint,
    "offset_delta" / Varint,
    "key_size" / Rebuild(Varint, lambda record: -1 if record.key is None else len(record.key)),
    "key" / If(this.key_size >= 0, Bytes(this.key_size)),
    "value_size" / Rebuild(Varint, lambda record: -1 if record.value is None else len(record.value)),
    "value" / If(this.value_size >= 0, Bytes(this.value_size)),
    "header_count" / Const(0, Varint),  # the metadata log has no record headers
    Terminated,
)

Record = Prefixed(Varint, RecordBody)

Batch = Struct(
    "header" / BatchHeader,
    "records" / Record[this.header.record_count],
    "size" / Computed(this.header.length + 12),
)
"""An uncompressed batch."""

ControlRecordKey = Struct(
    "version" / Int16sb,  # 0
    "type" / Int16sb,  # 2 LeaderChange .. 6 KRaftVoters
)

OffsetIndexEntry = Struct(
    "relative_offset" / Int32sb,  # last offset of the batch, less the base offset of the segment
    "position" / Int32sb,  # of that batch in the segment's file
)
"""8 bytes."""

TimeIndexEntry = Struct(
    "timestamp" / Int64sb,  # largest so far, Unix milliseconds
    "relative_offset" / Int32sb,
)
"""12 bytes."""

OffsetIndex = GreedyRange(OffsetIndexEntry)
TimeIndex = GreedyRange(TimeIndexEntry)
