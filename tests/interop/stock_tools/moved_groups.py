"""Consumer groups whose coordinator moves between brokers of quorumd and of Kafka while their members read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.types import GroupId

from tests.interop.stock_tools.claims import Step, expect
from tests.interop.stock_tools.coordinator_moves import OFFSETS_TOPIC, PATIENCE_S, CoordinatorMoves
from tests.support.processes.daemons import wait_for
from tests.support.processes.wire import Wire

CLASSIC, CONSUMER = "classic", "consumer"
PARTITIONS, REPLICAS = 2, 3
WRITE_EVERY_S = 0.02
STABLE = "Stable"


class Move(NamedTuple):
    """A move of the coordinator, after which one member is replaced by another: their protocols."""

    broker: int
    leaves: str
    joins: str


class Member:
    """A member with librdkafka, which commits what it has read."""

    def __init__(self, group: ReadingGroup, protocol: str) -> None:
        self.protocol = protocol
        self._group = group
        self._is_uncommitted = False
        settings = {
            "bootstrap.servers": group.bootstrap,
            "group.id": group.name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        if protocol == CLASSIC:
            timeouts = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 500}
            settings |= {**timeouts, "partition.assignment.strategy": "range"}
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            group.topics if protocol == CLASSIC else [f"^{group.name}-[0-9]"],
            on_assign=self._on_assign,
            on_revoke=lambda consumer, partitions: self._commit(),
        )

    def read(self) -> None:
        """Read some records, and commit them."""
        for message in self._consumer.consume(100, 0.02):
            if message.error() is None:
                self._group.read.append(message.value())
                self._is_uncommitted = True
        self._commit()

    def owned(self) -> list[tuple[str, int]]:
        """Return the partitions that it owns."""
        return [(each.topic, each.partition) for each in self._consumer.assignment()]

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._group.assignments += 1

    def _commit(self) -> None:
        if not self._is_uncommitted:
            return
        # Commits fail while the coordinator moves; the next one includes their offsets.
        with suppress(KafkaException):
            for done in self._consumer.commit(asynchronous=False) or ():
                if done.error is None:
                    self._group.committed[done.topic, done.partition] = done.offset
            self._is_uncommitted = False


class ReadingGroup:
    """A group whose members read in one thread, and what they have observed."""

    def __init__(self, bootstrap: str, name: str, topics: list[str]) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.topics = topics
        self.members: list[Member] = []
        self.read: list[bytes] = []
        self.committed: dict[tuple[str, int], int] = {}
        """The offsets of acknowledged commits."""
        self.assignments = 0
        """The number of assignments that members have got, more than one per member after a rebalance."""
        self._lock = Lock()
        self._over = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        for member in self.members:
            member.close()

    def _run(self) -> None:
        while not self._over.wait(0.001):
            with self._lock:
                for member in self.members:
                    member.read()

    def join(self, protocol: str) -> None:
        """Add a member."""
        with self._lock:
            self.members.append(Member(self, protocol))

    def leave(self, protocol: str) -> None:
        """Close the first member of a protocol."""
        with self._lock:
            member = next(each for each in self.members if each.protocol == protocol)
            self.members.remove(member)
            member.close()

    def owned(self) -> list[list[tuple[str, int]]]:
        """Return the partitions of each member."""
        with self._lock:
            return [member.owned() for member in self.members]

    @property
    def is_classic(self) -> bool:
        """Whether all members use the classic protocol, so that the group is a classic group."""
        return all(member.protocol == CLASSIC for member in self.members)


class MovedGroups:
    """Claims about groups whose coordinator moves. `theirs` and `ours` are brokers of Kafka and of quorumd."""

    def __init__(
        self, bootstrap: str, moves: CoordinatorMoves, ours: Sequence[int], theirs: Sequence[int]
    ) -> None:
        self._bootstrap = bootstrap
        self._moves = moves
        self._ours = ours
        self._theirs = theirs
        self._coordinator = ours[0]

    def steps(self) -> list[Step]:
        first, second, *_ = self._ours
        older, newer = self._theirs
        around = (newer, second, older, first)
        both = (
            Move(newer, CONSUMER, CLASSIC),  # Kafka downgrades the group.
            Move(second, CLASSIC, CONSUMER),  # quorumd upgrades it.
            Move(older, CLASSIC, CLASSIC),
            Move(first, CONSUMER, CLASSIC),  # quorumd downgrades it.
            Move(newer, CLASSIC, CONSUMER),  # Kafka upgrades it.
            Move(second, CLASSIC, CLASSIC),
        )
        keeps = "keeps members, epochs and offsets when its coordinator moves between Kafka and quorumd"
        return [
            (
                f"a classic group {keeps}",
                lambda: self._move(CLASSIC, [CLASSIC], [Move(each, CLASSIC, CLASSIC) for each in around]),
            ),
            (
                f"a group with a regular expression {keeps}",
                lambda: self._move(CONSUMER, [CONSUMER], [Move(each, CONSUMER, CONSUMER) for each in around]),
            ),
            (f"a group with members of both protocols {keeps}", lambda: self._move("both", [CONSUMER], both)),
        ]

    def _move(self, name: str, later: Sequence[str], moves: Sequence[Move]) -> str:
        """Start a group with one member of its first protocol, then the `later` ones, and move its coordinator."""
        topics = [f"{name}-{number}" for number in range(2)]
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        for created in admin.create_topics(
            [NewTopic(each, PARTITIONS, REPLICAS) for each in topics]
        ).values():
            created.result(PATIENCE_S)
        with ReadingGroup(self._bootstrap, name, topics) as group:
            with writing(self._bootstrap, topics) as written:
                group.join(CONSUMER if name == CONSUMER else CLASSIC)
                self._settle(group)
                self._move_to(group, self._ours[0])
                for protocol in later:
                    group.join(protocol)
                    self._settle(group)
                for move in moves:
                    self._check_move(group, move)
            wait_for("all records to be read", lambda: set(written) <= set(group.read), PATIENCE_S)
            wait_for("all offsets to be committed", lambda: self._is_all_committed(group), PATIENCE_S)
            expect("records read", sorted(group.read), sorted(written))
        return f"{len(moves)} moves, {len(written):,} records, each read once"

    def _settle(self, group: ReadingGroup) -> None:
        """Wait until every partition has one owner, and every member has partitions."""
        everything = sorted((topic, number) for topic in group.topics for number in range(PARTITIONS))

        def is_settled() -> bool:
            owned = group.owned()
            return all(owned) and sorted(each for member in owned for each in member) == everything

        wait_for(f"the members of {group.name} to share the partitions", is_settled, PATIENCE_S)
        self._wait_for_progress(group)

    def _check_move(self, group: ReadingGroup, move: Move) -> None:
        """Move the coordinator; nothing may change, and the members must go on. Then replace a member."""
        state, assignments, committed = self._describe(group), group.assignments, dict(group.committed)
        self._move_to(group, move.broker)
        self._wait_for_progress(group)
        where = f"after the move of {group.name} to broker {move.broker}"
        expect(f"the group {where}", self._describe(group), state)
        expect(f"assignments {where}", group.assignments, assignments)
        for each, offset in self._committed(group).items():
            expect(f"the offset of {each} {where} is kept", offset >= committed[each], True)
        group.leave(move.leaves)
        group.join(move.joins)
        self._settle(group)

    def _wait_for_progress(self, group: ReadingGroup) -> None:
        """Wait until newer offsets of every partition are committed."""
        before = dict(group.committed)
        count = len(group.topics) * PARTITIONS

        def has_progress() -> bool:
            committed = dict(group.committed)
            return len(committed) == count and all(
                offset > before.get(each, -1) for each, offset in committed.items()
            )

        wait_for(f"commits of {group.name}", has_progress, PATIENCE_S)

    def _move_to(self, group: ReadingGroup, broker: int) -> None:
        self._moves.move(OFFSETS_TOPIC, group.name, broker)
        self._coordinator = broker

    def _describe(self, group: ReadingGroup) -> dict[str, object]:
        """Wait until the group is stable, and return its epochs, members and assignments from its coordinator."""
        ids = (GroupId(group.name),)
        describe = _describe_classic if group.is_classic else _describe_consumers
        with Wire(self._moves.address(self._coordinator)) as wire:

            def stable() -> dict[str, object] | None:
                return describe(wire, ids)

            return wait_for(f"group {group.name} to be stable", stable, PATIENCE_S)

    def _committed(self, group: ReadingGroup) -> dict[tuple[str, int], int]:
        """Return the committed offsets, as a client outside of the group gets them."""
        consumer = Consumer({"bootstrap.servers": group.bootstrap, "group.id": group.name})
        try:
            wanted = [TopicPartition(topic, number) for topic in group.topics for number in range(PARTITIONS)]
            found = consumer.committed(wanted, timeout=PATIENCE_S)
            return {(each.topic, each.partition): each.offset for each in found}
        finally:
            consumer.close()

    def _is_all_committed(self, group: ReadingGroup) -> bool:
        return sum(self._committed(group).values()) == len(group.read)


def _describe_classic(wire: Wire, ids: tuple[GroupId, ...]) -> dict[str, object] | None:
    (group,) = wire.request(DescribeGroupsRequest(groups=ids, include_authorized_operations=False)).groups
    if group.group_state != STABLE:
        return None
    members = {each.member_id: each.member_assignment for each in group.members}
    return {"protocol": group.protocol_data, "members": members}


def _describe_consumers(wire: Wire, ids: tuple[GroupId, ...]) -> dict[str, object] | None:
    request = ConsumerGroupDescribeRequest(group_ids=ids, include_authorized_operations=False)
    (group,) = wire.request(request).groups
    if group.group_state != STABLE:
        return None
    members = {
        each.member_id: (
            each.member_epoch,
            each.subscribed_topic_regex or sorted(each.subscribed_topic_names),
            {topic.topic_name: sorted(topic.partitions) for topic in each.assignment.topic_partitions},
        )
        for each in group.members
    }
    return {"epoch": group.group_epoch, "assignment": group.assignment_epoch, "members": members}


@contextmanager
def writing(bootstrap: str, topics: Sequence[str]) -> Iterator[list[bytes]]:
    """Write records to all partitions of the topics until the block ends; then the list has all of them."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    written: list[bytes] = []
    over = Event()

    def run() -> None:
        while not over.wait(WRITE_EVERY_S):
            for topic in topics:
                for number in range(PARTITIONS):
                    written.append(b"%d" % len(written))
                    producer.produce(topic, written[-1], partition=number)
            producer.poll(0)

    thread = Thread(target=run)
    thread.start()
    try:
        yield written
    finally:
        over.set()
        thread.join()
        remaining = producer.flush(PATIENCE_S)
    expect("records that were not acknowledged", remaining, 0)
