"""The layouts of the frequent metadata records, and the columns of their fields.

All are flexible from version 0: fields in order, followed by tagged fields. Other types and later versions are
decoded by `plain`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord


class Kind(Enum):
    """The type of a field. Lists and strings have their length + 1 as a varint, 0 for null."""

    INT8 = 1
    INT32 = 4
    INT64 = 8
    UUID = 16
    INTS = "list of int32"
    UUIDS = "list of uuids"
    STRING = "string"
    RARE = "a tagged field without a column: `plain` decodes the record that has it"


SIZES: Final = {Kind.INT8: 1, Kind.INT32: 4, Kind.INT64: 8, Kind.UUID: 16}
"""Sizes in bytes of fixed-size kinds."""
ELEMENT_SIZES: Final = {Kind.INTS: 4, Kind.UUIDS: 16, Kind.STRING: 1}
"""Sizes in bytes of the elements of the other kinds."""


class Field(NamedTuple):
    """A field of versions from `since` on."""

    column: str
    kind: Kind
    since: int = 0


class Tag(NamedTuple):
    """A tagged field of versions from `since` on."""

    number: int
    column: str
    kind: Kind
    since: int = 0
    default: int | None = None
    """The value of the column without the tag."""
    null: int | None = None
    """The value of the field that stands for null."""


class Layout(NamedTuple):
    """The fields of a record type in all versions up to `max_version`."""

    name: str
    max_version: int
    fields: tuple[Field, ...]
    tags: tuple[Tag, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()
    """Columns with the same value for all records of the type."""


_BROKER = (Field("broker_id", Kind.INT32), Field("broker_epoch", Kind.INT64))
_TOPIC_ID = Field("topic_id", Kind.UUID)
_ORIGINAL_REPLICAS = Tag(10000, "original_replicas", Kind.INTS)

LAYOUTS: Final[dict[int, Layout]] = {
    PartitionRecord.API_KEY: Layout(
        PartitionRecord.NAME,
        2,
        (
            Field("partition", Kind.INT32),
            _TOPIC_ID,
            Field("replicas", Kind.INTS),
            Field("isr", Kind.INTS),
            Field("removing", Kind.INTS),
            Field("adding", Kind.INTS),
            Field("leader", Kind.INT32),
            Field("leader_epoch", Kind.INT32),
            Field("partition_epoch", Kind.INT32),
            Field("directories", Kind.UUIDS, since=1),
        ),
        (
            Tag(0, "recovering", Kind.INT8, default=0),
            Tag(1, "elr", Kind.INTS, since=2),
            Tag(2, "last_known_elr", Kind.INTS, since=2),
            _ORIGINAL_REPLICAS,
        ),
    ),
    PartitionChangeRecord.API_KEY: Layout(
        PartitionChangeRecord.NAME,
        2,
        (Field("partition", Kind.INT32), _TOPIC_ID),
        (
            Tag(0, "isr", Kind.INTS),
            Tag(1, "leader", Kind.INT32, null=-2),
            Tag(2, "replicas", Kind.INTS),
            Tag(3, "removing", Kind.INTS),
            Tag(4, "adding", Kind.INTS),
            Tag(5, "recovering", Kind.INT8, null=-1),
            Tag(6, "elr", Kind.INTS, since=2),
            Tag(7, "last_known_elr", Kind.INTS, since=2),
            Tag(8, "directories", Kind.UUIDS, since=1),
            _ORIGINAL_REPLICAS,
        ),
    ),
    TopicRecord.API_KEY: Layout(TopicRecord.NAME, 0, (Field("topic", Kind.STRING), _TOPIC_ID)),
    RemoveTopicRecord.API_KEY: Layout(RemoveTopicRecord.NAME, 0, (_TOPIC_ID,)),
    BrokerRegistrationChangeRecord.API_KEY: Layout(
        BrokerRegistrationChangeRecord.NAME,
        3,
        _BROKER,
        (
            Tag(0, "fenced", Kind.INT8, default=0),
            Tag(1, "in_controlled_shutdown", Kind.INT8, since=1, default=0),
            Tag(2, "data", Kind.RARE, since=2),
            Tag(3, "data", Kind.RARE, since=3),
        ),
    ),
    FenceBrokerRecord.API_KEY: Layout(FenceBrokerRecord.NAME, 0, _BROKER, constants=(("fenced", 1),)),
    UnfenceBrokerRecord.API_KEY: Layout(UnfenceBrokerRecord.NAME, 0, _BROKER, constants=(("fenced", -1),)),
    UnregisterBrokerRecord.API_KEY: Layout(UnregisterBrokerRecord.NAME, 0, _BROKER),
    NoOpRecord.API_KEY: Layout(NoOpRecord.NAME, 0, ()),
}

CONFIG: Final = (ConfigRecord.API_KEY, 0)
"""The type and version that `configs` decodes."""
