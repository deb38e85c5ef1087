"""Configs as lists: APPEND adds a value at the end, unless the list already has it (KIP-339).

Therefore an append is idempotent, and is retried while its outcome is unknown.
"""

from __future__ import annotations

from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.simulator.checkers.linearizability import Operation
from quorumd.simulator.workload.register_requests import alter_request

APPEND = 2
GENERATION_MS = 2500.0
"""Time for which a key is used: short lists are fast to write, read and check."""


def append_request(key: str, value: str) -> IncrementalAlterConfigsRequest:
    return alter_request(key, APPEND, value)


def split_values(operation: Operation) -> None:
    """Replace the text read from a list with the tuple of its values."""
    operation.value = tuple(operation.value.split(",")) if operation.value else ()
