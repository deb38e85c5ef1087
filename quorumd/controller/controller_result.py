"""The result of a request: records to append, and the response once they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.protocol.wire import Message


@dataclass(init=False, slots=True)
class ControllerResult:
    """The result of planning a request. `records` are appended atomically, followed by those of the partitions in
    `prepared`. If there are none, nothing has to be committed before the response."""

    records: Sequence[Message]
    response: Message
    prepared: PreparedPartitions | None

    def __init__(
        self, records: Sequence[Message], response: Message, prepared: PreparedPartitions | None = None
    ) -> None:
        self.records = records
        self.response = response
        self.prepared = prepared
