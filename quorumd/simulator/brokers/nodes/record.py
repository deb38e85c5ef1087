"""Records the actions of the producers and consumers of broker nodes for the checkers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.simulator.brokers.cluster_view import OwnerCommit
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.nodes.clients import KnownPartition
from quorumd.simulator.brokers.observation import Observation
from quorumd.simulator.brokers.partition_history import Outcome
from quorumd.simulator.brokers.produced import Produced, Transaction


class Recorder:
    """Numbers the values of all producers, and passes outcomes on to the observation."""

    def __init__(self, observation: Observation, wall_ms: Callable[[], int]) -> None:
        self.observation = observation
        self.wall_ms = wall_ms
        self.counts: Counter[str] = Counter()
        self.visible: dict[int, None] | None = None
        """The values that the last consumer saw, None before it begins."""
        self._values = 0
        self._offsets: dict[tuple[str, PartitionId], int] = {}

    def produce(
        self, where: PartitionId, session: str, order: int, transaction: Transaction | None = None
    ) -> int:
        """Return a new value that is about to be sent, and record it."""
        self._values += 1
        self.observation.view.produced[self._values] = Produced(session, order, transaction)
        self.observation.wrote(where, self._values)
        return self._values

    def acknowledged(self, to: KnownPartition, values: Sequence[int]) -> None:
        """Record a success with acks=all. Another topic of the same name may have replaced the known one."""
        image = self.observation.view.image
        is_same = image.topic_ids.get(to.topic) == to.id.topic_id
        self._settle(to.id, values, Outcome.ACKNOWLEDGED if is_same else Outcome.UNKNOWN)

    def refused(self, where: PartitionId, values: Sequence[int]) -> None:
        """Record that values were certainly not appended."""
        self._settle(where, values, Outcome.REFUSED)

    def unknown(self, where: PartitionId, values: Sequence[int]) -> None:
        """Record values whose outcome is unknown: they may be appended now or later."""
        self._settle(where, values, Outcome.UNKNOWN)

    def _settle(self, where: PartitionId, values: Sequence[int], outcome: Outcome) -> None:
        for value in values:
            self.observation.settled(where, value, outcome)

    def allocated(self, producer_id: int, epoch: int) -> None:
        """Record a producer id of a producer without transactions."""
        self.observation.producer_id_allocated(producer_id, epoch)

    def read_committed(self, where: PartitionId, values: Sequence[int]) -> None:
        """Record what a consumer with isolation level read_committed may see."""
        self.counts["records read committed"] += len(values)
        if self.visible is not None:
            self.visible |= dict.fromkeys(values)
        self.observation.read_committed(where, values)

    def offsets_requested(self, group: str, owned: Sequence[PartitionId]) -> Mapping[PartitionId, int]:
        """Return the newest offsets of the group whose commits were acknowledged."""
        return {where: self._offsets[group, where] for where in owned if (group, where) in self._offsets}

    def offset_fetched(
        self, group: str, where: PartitionId, offset: int, committed: Mapping[PartitionId, int]
    ) -> None:
        """Record an offset in a response; `committed` has the offsets that were committed before the request."""
        self.counts["offsets fetched"] += 1
        self.observation.offset_reported(group, where, offset, committed.get(where, -1))

    def offset_committed(self, topic: str, commit: OwnerCommit) -> None:
        """Record a successful commit. Another topic of the same name may have replaced the known one."""
        self.counts["offsets committed"] += 1
        group, where = commit.group, commit.where
        if self.observation.view.image.topic_ids.get(topic) == where.topic_id:
            self.observation.offset_reported(
                group, where, commit.offset, self._offsets.get((group, where), -1)
            )
            self._offsets[group, where] = commit.offset
            self.observation.offset_committed(commit)

    def late_commit(self, group: str, topic: str, number: int, error: ErrorCode) -> None:
        """Record the response to a commit with an epoch of the member that is no longer current."""
        self.observation.late_commit(group, topic, number, error)

    def assigned(
        self, group: str, subscribed: Sequence[str], assigned: Sequence[PartitionId], *, by_regex: bool
    ) -> None:
        """Record the partitions assigned to a member, and the topics to which it subscribes."""
        self.counts["assignments received"] += 1
        self.counts["assignments by regular expression"] += by_regex and bool(assigned)
        self.observation.assigned(group, subscribed, assigned)

    def consumed(self, where: PartitionId, offset: int, records: Sequence[Record]) -> None:
        """Record what a consumer received."""
        self.counts["records read"] += len(records)
        self.observation.read(where, offset, records)
