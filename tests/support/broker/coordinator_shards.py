"""One partition of a coordinator on a log in memory, for tests that control time and the high watermark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from quorumd.broker.coordinator.consumer_rebalance import Regexes
from quorumd.broker.coordinator.effects import Times
from quorumd.broker.coordinator.groups import GroupCoordinator
from quorumd.broker.coordinator.large_members import LargeMembers
from quorumd.broker.coordinator.metadata_hash import topic_hash
from quorumd.broker.coordinator.records import LoadedMarker, LoadedRecord, decode_records
from quorumd.broker.coordinator.regex_evaluator import regex_task
from quorumd.broker.coordinator.shards import Shard, Shards, StateMachine
from quorumd.broker.coordinator.topic_regexes import EvaluatedRegexes, RegexCompiler, RegexEvaluation
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.batch_header import read_header, stamped
from quorumd.simulator.environment.topic_regexes import compile_regex
from tests.support.node.virtual_time import VirtualTime

M = TypeVar("M", bound=StateMachine)


class MemoryCoordinatorLog:
    """The log of a partition in memory. Appends are replicated immediately unless `is_replicating` is False."""

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition
        self.leader_epoch = 0
        self.start_offset = 0
        self.high_watermark = 0
        self.end_offset = 0
        self.is_replicating = True
        self.refuses = ErrorCode.NONE
        self.batches: list[bytes] = []

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return batches from the one with `offset`."""
        data = b""
        for batch in self.batches:
            if read_header(batch).end_offset > offset:
                if data and len(data) + len(batch) > max_bytes:
                    break
                data += batch
        return data

    def append(self, records: bytes) -> ErrorCode:
        """Append one batch, unless `refuses` is an error."""
        if self.refuses is not ErrorCode.NONE:
            return self.refuses
        batch = stamped(records, read_header(records), self.end_offset, self.leader_epoch)
        self.batches.append(batch)
        self.end_offset = read_header(batch).end_offset
        if self.is_replicating:
            self.high_watermark = self.end_offset
        return ErrorCode.NONE

    def records(self, coordinator: str) -> list[LoadedRecord | LoadedMarker]:
        """Return everything in the log."""
        return [record for batch in self.batches for record in decode_records(coordinator, batch)]


class CoordinatorShard(Generic[M]):
    """A coordinator of one partition. `run` runs operations of its state machine; `fail_over` changes the leader."""

    def __init__(self, coordinator: str, topic: str, create: Callable[[], M]) -> None:
        self.time = VirtualTime()
        self.log = MemoryCoordinatorLog()
        self.coordinator = coordinator
        self.shards: Shards[M] = Shards(
            coordinator, topic, self.time.clock, lambda partition: create(), 1000, 5_000
        )
        self.elect()

    def elect(self) -> None:
        """Make this broker the leader and load the log."""
        self.shards.elected(self.log)
        self.time.end_turn()

    @property
    def shard(self) -> Shard[M]:
        """The loaded partition."""
        found = self.shards.active(0)
        assert isinstance(found, Shard), found
        return found

    @property
    def machine(self) -> M:
        """The state machine of the partition."""
        return self.shard.machine

    def run(self, operation: Callable[[M, Times], Any]) -> Any:
        """Run an operation of the state machine and return its result."""
        results = []
        self.shard.run(lambda machine, times: results.append(operation(machine, times)))
        return results[0]

    def replicate(self) -> None:
        """Replicate the whole log, and later appends immediately."""
        self.log.is_replicating = True
        self.log.high_watermark = self.log.end_offset
        self.shards.high_watermark_advanced(0)

    def fail_over(self) -> None:
        """Resign, then load the log as the next leader does."""
        self.shards.resigned(0)
        self.log.leader_epoch += 1
        self.elect()

    def pass_ms(self, duration_ms: float) -> None:
        """Advance time."""
        self.time.pass_ms(duration_ms)


class FixedTopics:
    """The topics of a cluster, for the coordinator of consumer groups."""

    def __init__(self, **topics: int) -> None:
        self.offset = 0
        self.created_offset = 0
        self.counts = topics

    def create(self, name: str, partitions: int) -> None:
        """Create a topic."""
        self.counts[name] = partitions
        self.offset += 1
        self.created_offset = self.offset

    def delete(self, name: str) -> None:
        """Delete a topic."""
        del self.counts[name]
        self.offset += 1

    def partitions(self, name: str) -> tuple[KafkaUuid, int] | None:
        """Return the id of a topic, which is derived from its name, and its number of partitions."""
        count = self.counts.get(name)
        return None if count is None else (topic_id(name), count)

    def hash(self, name: str) -> int | None:
        """Return the hash of a topic without racks."""
        count = self.counts.get(name)
        return None if count is None else topic_hash(topic_id(name), name, [()] * count)

    def name(self, wanted: KafkaUuid) -> str | None:
        """Return the name of a topic."""
        return next((name for name in self.counts if topic_id(name) == wanted), None)


def topic_id(name: str) -> KafkaUuid:
    """Return the id of a topic of `FixedTopics`."""
    return KafkaUuid(name.encode().ljust(16, b"."))


class Evaluations:
    """The evaluations of regular expressions that coordinators have begun. The test runs them."""

    def __init__(self, topics: FixedTopics) -> None:
        self.topics = topics
        self.begun: list[RegexEvaluation] = []
        self.compile: RegexCompiler = compile_regex

    def run(self, groups: CoordinatorShard[GroupCoordinator]) -> None:
        """Run all evaluations, and deliver the results to the coordinator."""
        results: list[EvaluatedRegexes] = []
        for evaluation in self.begun:
            task = regex_task(
                evaluation, list(self.topics.counts), self.topics.offset, self.compile, results.append
            )
            while not task.is_done:
                task.advance(1)
        self.begun.clear()
        for result in results:
            groups.run(lambda machine, times, result=result: machine.regexes_evaluated(result, times))


def group_shard(
    settings: GroupSettings | None = None,
    topics: FixedTopics | None = None,
    evaluations: Evaluations | None = None,
) -> CoordinatorShard[GroupCoordinator]:
    """Return a partition of __consumer_offsets; member ids are `<prefix>-<number>`."""
    numbers = iter(range(1, 1_000_000))
    used = settings or GroupSettings(initial_rebalance_delay_ms=0)
    known = topics or FixedTopics()
    begun = evaluations or Evaluations(known)
    return CoordinatorShard(
        "group",
        "__consumer_offsets",
        lambda: GroupCoordinator(
            used,
            lambda prefix: f"{prefix}-{next(numbers)}",
            known,
            Regexes(begun.compile, begun.begun.append),
            LargeMembers(),
        ),
    )
