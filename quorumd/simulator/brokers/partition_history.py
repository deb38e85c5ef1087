"""The outcomes of the records of one partition, and whether records may be lost."""

from __future__ import annotations

from enum import Enum

from quorumd.simulator.brokers.data_log import Record

UNBOUNDED = 1 << 30


class Outcome(Enum):
    """The outcome of a write for its producer."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """The error is NOT_ENOUGH_REPLICAS: the record was not appended."""
    UNKNOWN = "unknown"
    """There was another error or no response: the record may be in the log, now or later."""


class PartitionHistory:
    """The committed records of one partition, and the outcomes of its writes."""

    __slots__ = ("acknowledged", "consumed", "guarantee_lost", "least_min_isr", "lossy", "refused", "waiting")

    def __init__(self) -> None:
        self.consumed: list[Record] = []
        """The record at each offset when the high watermark of a leader first passed it."""
        self.acknowledged: dict[int, None] = {}
        """Values whose writes were acknowledged."""
        self.refused: dict[int, None] = {}
        """Values whose writes were refused."""
        self.waiting: dict[int, None] = {}
        """Values whose writes have no outcome yet."""
        self.guarantee_lost = ""
        """Why records may be lost: a replica that lacked records was elected, or too many disks were lost at once. ""
        if no record may be lost."""
        self.lossy: dict[int, int] = {}
        """Brokers that lost records and have not been in sync since, with the incarnation that lost them."""
        self.least_min_isr = UNBOUNDED
        """The minimum number of replicas that had every committed record."""

    @property
    def high_watermark(self) -> int:
        """The highest high watermark of any leader."""
        return len(self.consumed)

    @property
    def holds(self) -> bool:
        """Whether the guarantee holds that no committed record is lost."""
        return not self.guarantee_lost

    def break_guarantee(self, why: str) -> None:
        """Record that records may be lost from now on, whatever the controller does."""
        self.guarantee_lost = self.guarantee_lost or why

    def count_lossy(self) -> None:
        """Break the guarantee if as many replicas lost records at once as had them at least (KIP-966)."""
        if len(self.lossy) >= self.least_min_isr:
            self.break_guarantee(f"brokers {sorted(self.lossy)} lost records at once")
