"""Configs as lists: APPEND adds a value at the end, unless the list has it already (KIP-339).

So an append can be sent again when nobody knows what became of it: however often it arrives, it has one effect.
"""

from __future__ import annotations

from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.simulator.checkers.linearizability import Operation
from quorumd.simulator.workload.register_requests import alter_request

APPEND = 2
GENERATION_MS = 2500.0
"""After that long a key is not used any more: short lists are quickly written, read and judged."""


def append_request(key: str, value: str) -> IncrementalAlterConfigsRequest:
    return alter_request(key, APPEND, value)


def split_values(operation: Operation) -> None:
    """Make of the text that a read of a list saw the tuple of its values."""
    operation.value = tuple(operation.value.split(",")) if operation.value else ()
