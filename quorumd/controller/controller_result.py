"""The result of a request: records to append, and the response once they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.protocol.wire import Message


class ControllerResult(NamedTuple):
    """The result of planning a request. `records` are appended atomically, followed by those of the partitions in
    `prepared`. If there are none, nothing has to be committed before the response."""

    records: Sequence[Message]
    response: Message
    prepared: PreparedPartitions | None = None
