"""In which version a record is written, so that every reader at the cluster's metadata version understands it."""

from __future__ import annotations

from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.wire import Message

_VERSIONS: dict[type[Message], int] = {
    RegisterBrokerRecord: 3,
    PartitionRecord: 2,
    PartitionChangeRecord: 2,
}
"""At metadata version 25, the one that new clusters have. Others are in version 0."""


def record_version(record: Message) -> int:
    """The version to write this record in."""
    if isinstance(record, BrokerRegistrationChangeRecord):
        # A reader that knows no drains or directories reads the rest.
        return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
    return _VERSIONS.get(type(record), 0)
