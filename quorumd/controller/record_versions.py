"""In which version a record is written, so that every reader at the cluster's metadata version understands it."""

from __future__ import annotations

from typing import Final

from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.wire import Message

ELR_FIELDS_SINCE: Final = 23
"""The metadata version (4.0-IV1) from which partitions have an ELR (KIP-966)."""


def record_version(record: Message, metadata_version: int) -> int:
    """The version to write this record in, at a metadata version of those that `features` allows."""
    if isinstance(record, (PartitionChangeRecord, PartitionRecord)):
        return 2 if metadata_version >= ELR_FIELDS_SINCE else 1
    if isinstance(record, BrokerRegistrationChangeRecord):
        # A reader that knows no drains or directories reads the rest.
        return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
    return 3 if isinstance(record, RegisterBrokerRecord) else 0
