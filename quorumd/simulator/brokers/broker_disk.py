"""The log directories of one broker, and the logs in them."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid
from quorumd.simulator.brokers.data_log import DataLog


class Disk:
    """The disk of a broker, which outlives its processes. `clean_epoch`: broker epoch in the clean-shutdown file, -1
    without one. `cordoned`: numbers of the cordoned directories, None if brokers do not support cordons."""

    def __init__(self, directory_ids: Sequence[KafkaUuid], *, knows_cordons: bool = False) -> None:
        self.directory_ids = list(directory_ids)
        self.cordoned: set[int] | None = set() if knows_cordons else None
        self.clean_epoch = -1
        self.logs: dict[PartitionId, tuple[DataLog, int]] = {}
        """Each log with its checkpointed high watermark."""
        self._places: dict[PartitionId, int] = {}
        """Number of the directory of each log."""

    @property
    def cordoned_ids(self) -> list[KafkaUuid] | None:
        """The cordoned directories in heartbeats."""
        return (
            None
            if self.cordoned is None
            else [self.directory_ids[number] for number in sorted(self.cordoned)]
        )

    @property
    def is_cordoned(self) -> bool:
        """Whether all directories are cordoned."""
        return self.cordoned is not None and len(self.cordoned) == len(self.directory_ids)

    def place(self, where: PartitionId) -> None:
        """Choose the directory of a new log: that with the fewest logs, preferably not cordoned."""
        numbers = range(len(self.directory_ids))
        usable = [number for number in numbers if number not in (self.cordoned or ())] or list(numbers)
        taken = list(self._places.values())
        self._places[where] = min(usable, key=taken.count)

    def directory_of(self, where: PartitionId) -> KafkaUuid:
        return self.directory_ids[self._places[where]]

    def remove(self, where: PartitionId) -> None:
        self.logs.pop(where, None)
        self._places.pop(where, None)

    def exchange(self, directory_ids: Sequence[KafkaUuid]) -> None:
        """Replace all directories with the same number of empty ones."""
        self.directory_ids = list(directory_ids)
        self.logs.clear()
        self._places.clear()
