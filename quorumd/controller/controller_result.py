"""The result of a request: records to append, and the response once they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.protocol.wire import Message


class ControllerResult(NamedTuple):
    """`records` are appended together or not at all, with those of the partitions in `prepared` behind them. Without
    any the answer is a read of the image."""

    records: Sequence[Message]
    response: Message
    prepared: PreparedPartitions | None = None
