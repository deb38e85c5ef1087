"""Data logs under test, and batches that producers append to them."""

from __future__ import annotations

from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.appended import Appended
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log.transaction_marker import TransactionMarker
from quorumd.ports import Disk
from tests.support.log.data_batches import produced

COMMIT, ABORT = TransactionMarker(True, 1), TransactionMarker(False, 1)


def opened(disk: Disk, directory: str, settings: PartitionLogSettings | None = None) -> PartitionLog:
    """Open the log of partition 0 of topic `t`."""
    return PartitionLog.open(disk, f"{directory}/t-0", settings or PartitionLogSettings())[0]


def append(log: PartitionLog, data: bytes | None = None, epoch: int = 0, wall_ms: int = 1000) -> Appended:
    """Append one batch as the leader."""
    return log.append_as_leader(produced() if data is None else data, epoch, 0.0, wall_ms)


def of_producer(sequence: int, producer_id: int = 7, transactional: bool = False, count: int = 1) -> bytes:
    """Return a batch of an idempotent or transactional producer."""
    return produced(
        [(b"k", b"v")] * count,
        producer_id=producer_id,
        producer_epoch=0,
        sequence=sequence,
        transactional=transactional,
    )
