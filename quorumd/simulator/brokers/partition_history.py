"""What became of the records of one partition, and whether none of them may be lost."""

from __future__ import annotations

from quorumd.simulator.brokers.data_log import Record

UNBOUNDED = 1 << 30


class PartitionHistory:
    """`consumed`: the record at each offset when the high watermark of any leader first passed it; so its length is
    the highest high watermark that ever was. `acknowledged`, `refused`: values, as producers were told. `waiting`:
    those of which nobody has told anything.

    `guarantee_lost`: why records may be lost, "" while none may: an election of a replica that lacked some, or the
    loss of too many disks at once. `lossy`: brokers that lost records and have not come back since, with the life in
    which that was. `least_min_isr`: how many replicas, at least, have had every committed record at its time.
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
        """Whether no committed record may be lost."""
        return not self.guarantee_lost

    def break_guarantee(self, why: str) -> None:
        """From now on records may be lost, whatever the controller does."""
        self.guarantee_lost = self.guarantee_lost or why

    def count_lossy(self) -> None:
        """As many copies lost at once as there were at least: nobody may have a record any more (KIP-966)."""
        if len(self.lossy) >= self.least_min_isr:
            self.break_guarantee(f"brokers {sorted(self.lossy)} lost records at once")
