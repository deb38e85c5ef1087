"""The log directories of one broker, and the logs in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid
from quorumd.simulator.brokers.data_log import DataLog


class Disk:
    """The disk of a broker, which outlives its processes."""

    def __init__(self, directory_ids: Sequence[KafkaUuid], *, knows_cordons: bool = False) -> None:
        self.directory_ids = list(directory_ids)
        self.cordoned: set[int] | None = set() if knows_cordons else None
        """Numbers of the cordoned directories, None if the broker does not support cordons."""
        self.lost: set[int] = set()
        """Numbers of the directories that failed."""
        self.clean_epoch = -1
        """Broker epoch in the clean-shutdown file, -1 without one."""
        self.logs: dict[PartitionId, tuple[DataLog, int]] = {}
        """Each log with its checkpointed high watermark."""
        self._places: dict[PartitionId, int] = {}
        """Number of the directory of each log, also of logs in lost directories."""

    @property
    def cordoned_ids(self) -> list[KafkaUuid] | None:
        """The cordoned directories that heartbeats report."""
        return (
            None
            if self.cordoned is None
            else [self.directory_ids[number] for number in sorted(self.cordoned - self.lost)]
        )

    @property
    def lost_ids(self) -> list[KafkaUuid]:
        """The lost directories that heartbeats report."""
        return [self.directory_ids[number] for number in sorted(self.lost)]

    @property
    def lost_places(self) -> list[PartitionId]:
        """The replicas whose directory is lost."""
        return [where for where, number in self._places.items() if number in self.lost]

    @property
    def is_cordoned(self) -> bool:
        """Whether all directories are cordoned."""
        return self.cordoned is not None and len(self.cordoned) == len(self.directory_ids)

    def place(self, where: PartitionId) -> None:
        """Choose the directory of a new log: the one with the fewest logs, preferably not cordoned."""
        numbers = [number for number in range(len(self.directory_ids)) if number not in self.lost]
        usable = [number for number in numbers if number not in (self.cordoned or ())] or numbers
        taken = list(self._places.values())
        self._places[where] = min(usable, key=taken.count)

    def directory_of(self, where: PartitionId) -> KafkaUuid:
        return self.directory_ids[self._places[where]]

    def remove(self, where: PartitionId) -> None:
        self.logs.pop(where, None)
        self._places.pop(where, None)

    def lose(self, number: int) -> dict[PartitionId, DataLog]:
        """Lose a directory; return the logs that were in it."""
        self.lost.add(number)
        return {where: self.logs.pop(where)[0] for where in self.lost_places if where in self.logs}

    def replace_lost(self, new_id: Callable[[], KafkaUuid]) -> None:
        """Replace lost directories with empty ones."""
        for where in self.lost_places:
            del self._places[where]
        for number in sorted(self.lost):
            self.directory_ids[number] = new_id()
        self.lost.clear()

    def exchange(self, directory_ids: Sequence[KafkaUuid]) -> None:
        """Replace all directories with the same number of empty ones."""
        self.directory_ids = list(directory_ids)
        self.lost.clear()
        self.logs.clear()
        self._places.clear()
