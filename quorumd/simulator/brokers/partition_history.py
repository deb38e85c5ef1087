"""The outcomes of the records of one partition, and whether records may be lost."""

from __future__ import annotations

from quorumd.simulator.brokers.data_log import Record

UNBOUNDED = 1 << 30


class PartitionHistory:
    """`consumed`: the record at each offset when the high watermark of a leader first passed it; its length is
    the highest high watermark. `acknowledged`, `refused`, `waiting`: values with these outcomes, and without one.

    `guarantee_lost`: why records may be lost, "" if they may not: an election of a replica that lacked some, or the
    loss of too many disks at once. `lossy`: brokers that lost records and are not in sync since, with the incarnation
    that lost them. `least_min_isr`: minimum number of replicas that had every committed record.
    """

    __slots__ = ("acknowledged", "consumed", "guarantee_lost", "least_min_isr", "lossy", "refused", "waiting")

    def __init__(self) -> None:
        self.consumed: list[Record] = []
        self.acknowledged: dict[int, None] = {}
        self.refused: dict[int, None] = {}
        self.waiting: dict[int, None] = {}
        self.guarantee_lost = ""
        self.lossy: dict[int, int] = {}
        self.least_min_isr = UNBOUNDED

    @property
    def high_watermark(self) -> int:
        return len(self.consumed)

    @property
    def holds(self) -> bool:
        """Whether the guarantee holds that no committed record is lost."""
        return not self.guarantee_lost

    def break_guarantee(self, why: str) -> None:
        """Record that records may be lost from now on, whatever the controller does."""
        self.guarantee_lost = self.guarantee_lost or why

    def count_lossy(self) -> None:
        """Break the guarantee if as many copies are lost at once as records had at least (KIP-966)."""
        if len(self.lossy) >= self.least_min_isr:
            self.break_guarantee(f"brokers {sorted(self.lossy)} lost records at once")
