"""Requests about existing topics, partitions and brokers that are invalid in any state of them, with the errors that
they must get, and elections of all partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from quorumd.controller.cluster_image import ClusterImage, Topic
from quorumd.errors import ErrorCode as E
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages import alter_partition_reassignments_request as moves
from quorumd.protocol.messages import assign_replicas_to_dirs_request as directories
from quorumd.protocol.messages import create_partitions_request as growth
from quorumd.protocol.messages import create_topics_request as topics
from quorumd.protocol.messages import elect_leaders_request as elections
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.operators.operator import TIMEOUT_MS, AdminRequest

UNKNOWN_BROKER: Final = 9999
UNKNOWN_PARTITION: Final = 999
NEW_TOPIC: Final = "mistaken"
TOO_MANY_PARTITIONS: Final = 20_000
PREFERRED, UNCLEAN = 0, 1
ELECTION_RESULTS: Final = (
    E.NONE, E.ELECTION_NOT_NEEDED, E.PREFERRED_LEADER_NOT_AVAILABLE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
)  # fmt: skip
IS_GONE: Final = (E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID, E.STALE_BROKER_EPOCH)
"""Errors of requests about a topic that was deleted, or a broker that has restarted, since they were built."""


class PartitionMistakes:
    """Builds requests from the committed metadata, which `image()` returns."""

    def __init__(self, random: Random, image: Callable[[], ClusterImage], broker_ids: Sequence[int]) -> None:
        self._random = random
        self._image = image
        self._broker_ids = broker_ids
        self._kinds: tuple[Callable[[Topic], AdminRequest], ...] = (
            self._no_growth,
            self._excessive_growth,
            self._other_assignments,
            self._invalid_assignments,
            self._target,
            self._new_topic,
            self._directory,
            self._every_election,
            self._every_election,
            self._repeated_election,
        )

    def next(self) -> AdminRequest | None:
        """Return the next request."""
        image, random = self._image(), self._random
        if not image.topic_ids:
            return None
        topic = image.topics[image.topic_ids[random.choice(sorted(image.topic_ids))]]
        return random.choice(self._kinds)(topic)

    def _no_growth(self, topic: Topic) -> AdminRequest:
        request = growth.CreatePartitionsTopic(topic.name, self._random.choice((1, 0, -1)), None)
        return _growth([request], E.INVALID_PARTITIONS)

    def _excessive_growth(self, topic: Topic) -> AdminRequest:
        wanted = growth.CreatePartitionsTopic(topic.name, TOO_MANY_PARTITIONS, None)
        return _growth([wanted], E.POLICY_VIOLATION)

    def _other_assignments(self, topic: Topic) -> AdminRequest:
        """Add a hundred partitions, with the replicas of one."""
        assigned = [growth.CreatePartitionsAssignment([self._broker_ids[0]])]
        wanted = growth.CreatePartitionsTopic(topic.name, len(topic.partitions) + 100, assigned)
        return _growth([wanted], E.INVALID_REPLICA_ASSIGNMENT)

    def _invalid_assignments(self, topic: Topic) -> AdminRequest:
        """Add partitions on the same broker twice, on an unknown one, or on none."""
        first = self._broker_ids[0]
        replicas = self._random.choice(([first, first], [UNKNOWN_BROKER], []))
        assigned = [growth.CreatePartitionsAssignment(replicas) for _ in range(2)]
        wanted = growth.CreatePartitionsTopic(topic.name, len(topic.partitions) + 2, assigned)
        return _growth([wanted], E.INVALID_REPLICA_ASSIGNMENT, E.INVALID_PARTITIONS)

    def _target(self, topic: Topic) -> AdminRequest:
        first = self._broker_ids[0]
        replicas = self._random.choice(([], [first, first], [UNKNOWN_BROKER], [first, UNKNOWN_BROKER]))
        wanted = [
            moves.ReassignablePartition(number, replicas)
            for number in self._random.sample(sorted(topic.partitions), 1)
        ]
        request = moves.AlterPartitionReassignmentsRequest(
            TIMEOUT_MS, self._random.random() < 0.5, [moves.ReassignableTopic(topic.name, wanted)]
        )
        return _request(request, E.INVALID_REPLICA_ASSIGNMENT)

    def _new_topic(self, topic: Topic) -> AdminRequest:
        """Create a topic whose assignment has a partition twice, a gap, a broker twice, or different numbers of
        replicas."""
        first, second = self._broker_ids[:2]
        replicas = self._random.choice(
            (
                ((0, [first]), (0, [first])),
                ((0, [first]), (2, [first])),
                ((0, [first, first]),),
                ((0, [first]), (1, [first, second])),
            )
        )
        wanted = topics.CreatableTopic(NEW_TOPIC, -1, -1)
        wanted.assignments = [topics.CreatableReplicaAssignment(*each) for each in replicas]
        return _request(topics.CreateTopicsRequest([wanted], TIMEOUT_MS, False), E.INVALID_REPLICA_ASSIGNMENT)

    def _directory(self, topic: Topic) -> AdminRequest:
        """Place a replica that does not exist, or in the name of an earlier incarnation of the broker."""
        random = self._random
        broker = self._image().brokers.get(random.choice(self._broker_ids))
        broker_id, epoch = (broker.id, broker.epoch) if broker is not None else (UNKNOWN_BROKER, -1)
        topic_id, number, error = random.choice(
            (
                (topic.id, UNKNOWN_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION),
                (KafkaUuid(random.randbytes(16)), 0, E.UNKNOWN_TOPIC_ID),
                (topic.id, 0, E.STALE_BROKER_EPOCH),
            )
        )
        if error is E.STALE_BROKER_EPOCH:
            epoch -= 1
        part = directories.TopicData(topic_id, [directories.PartitionData(number)])
        data = directories.DirectoryData(ZERO_UUID, [part])
        return _request(directories.AssignReplicasToDirsRequest(broker_id, epoch, [data]), error)

    def _every_election(self, topic: Topic) -> AdminRequest:
        """Elect the leaders of all partitions, which a leader does in parts."""
        kind = self._random.choice((PREFERRED, PREFERRED, UNCLEAN))
        return _request(elections.ElectLeadersRequest(kind, None, TIMEOUT_MS), *ELECTION_RESULTS)

    def _repeated_election(self, topic: Topic) -> AdminRequest:
        """Elect the preferred leader of a partition twice."""
        number = self._random.choice(sorted(topic.partitions))
        named = [elections.TopicPartitions(topic.name, [number, number])]
        return _request(elections.ElectLeadersRequest(PREFERRED, named, TIMEOUT_MS), *ELECTION_RESULTS)


def _growth(wanted: list[growth.CreatePartitionsTopic], *expected: E) -> AdminRequest:
    return _request(growth.CreatePartitionsRequest(wanted, TIMEOUT_MS), *expected)


def _request(request: Message, *expected: E) -> AdminRequest:
    errors = frozenset(int(each) for each in (*expected, *IS_GONE))
    return AdminRequest(request, request.MAX_VERSION, errors)
