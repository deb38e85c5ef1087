"""The result of an append, which may wait for a flush."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.errors import ErrorCode


class AppendResult(NamedTuple):
    """The result of an append; `last_offset` is -1 if nothing was appended.

    After REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND or a loss of leadership, the records are in the log and
    may still be committed.
    """

    error: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None
    last_offset: int = -1


AppendDone = Callable[[AppendResult], None]


class FlushGate(Protocol):
    """The flushes on which acknowledgements depend."""

    def is_required(self, hosted: HostedPartition) -> bool:
        """Whether the last append must be flushed before it is acknowledged."""

    def after_flush(self, hosted: HostedPartition, end_offset: int, callback: Callable[[bool], None]) -> None:
        """Call back with True once the log is flushed up to `end_offset`, or with False if it no longer can be."""


def after_flush(gate: FlushGate, hosted: HostedPartition, end_offset: int, done: AppendDone) -> AppendDone:
    """Return a callback that delays a successful result until the log is flushed up to `end_offset`."""
    results: list[AppendResult] = []
    is_flushed = False

    def flushed(is_durable: bool) -> None:
        nonlocal is_flushed
        is_flushed = True
        if results:
            error = ErrorCode.NONE if is_durable else ErrorCode.KAFKA_STORAGE_ERROR
            done(results[0]._replace(error=error))

    def completed(result: AppendResult) -> None:
        if is_flushed or result.error is not ErrorCode.NONE:
            done(result)
        else:
            results.append(result)

    gate.after_flush(hosted, end_offset, flushed)
    return completed
