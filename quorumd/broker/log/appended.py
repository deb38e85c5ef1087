"""The result of an append."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.protocol.batch_header import NO_TIMESTAMP


class Appended(NamedTuple):
    """The offsets of an appended batch; for a duplicate, the offsets of the original batch."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int = NO_TIMESTAMP
    is_duplicate: bool = False
