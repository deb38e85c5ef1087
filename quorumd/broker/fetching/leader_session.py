"""The fetch session of a follower with one leader (KIP-227): a request contains only partitions that changed."""

from __future__ import annotations

from quorumd.broker.replication.replica_fetch import ReplicaFetch
from quorumd.broker.settings.broker_settings import ReplicaFetchSettings
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

NO_SESSION = 0
FIRST_EPOCH = 0
REPLICA_STATE_SINCE = 15
_MAX_EPOCH = 2**31 - 1


class LeaderSession:
    """The fetch session with one leader. `requested` contains its partitions as the leader knows them."""

    def __init__(self, broker_id: int, settings: ReplicaFetchSettings) -> None:
        self.requested: dict[PartitionId, ReplicaFetch] = {}
        self._broker_id = broker_id
        self._settings = settings
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether the next request names all partitions, to begin a new session."""
        return self._epoch == FIRST_EPOCH

    def begin_full(self, partitions: dict[PartitionId, ReplicaFetch]) -> None:
        """Begin a new session with these partitions."""
        self.requested = dict(partitions)

    def update(self, changed: dict[PartitionId, ReplicaFetch], forgotten: list[PartitionId]) -> None:
        """Record the changes that the next request contains."""
        self.requested.update(changed)
        for each in forgotten:
            self.requested.pop(each, None)

    def request(
        self,
        partitions: dict[PartitionId, ReplicaFetch],
        forgotten: list[PartitionId],
        broker_epoch: int,
        version: int,
    ) -> FetchRequest:
        """Build the request that names these partitions."""
        settings = self._settings
        topics: dict[KafkaUuid, FetchTopic] = {}
        for each, fetch in partitions.items():
            topic = topics.get(each.topic_id)
            if topic is None:
                topic = topics[each.topic_id] = FetchTopic("", each.topic_id)
            topic.partitions.append(
                FetchPartition(
                    each.number,
                    fetch.leader_epoch,
                    fetch.offset,
                    fetch.last_epoch,
                    fetch.start_offset,
                    settings.max_bytes,
                )
            )
        removed: dict[KafkaUuid, ForgottenTopic] = {}
        for each in forgotten:
            forgotten_topic = removed.setdefault(each.topic_id, ForgottenTopic("", each.topic_id))
            forgotten_topic.partitions.append(each.number)
        request = FetchRequest(
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(removed.values()),
        )
        if version >= REPLICA_STATE_SINCE:
            request.replica_state = ReplicaState(self._broker_id, broker_epoch)
        else:
            request.replica_id = self._broker_id
        return request

    def handle_response(self, session_id: int) -> None:
        """Continue with the session of a response without a top-level error."""
        if self._epoch == FIRST_EPOCH:
            self._id = session_id
            self._epoch = FIRST_EPOCH if session_id == NO_SESSION else FIRST_EPOCH + 1
        else:
            self._epoch = self._epoch + 1 if self._epoch < _MAX_EPOCH else FIRST_EPOCH + 1

    def handle_error(self, error: int) -> None:
        """Begin a new session after a top-level error."""
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
        self.reset()

    def reset(self) -> None:
        """Begin a new session, because the state of the current one on the leader is unknown."""
        self._epoch = FIRST_EPOCH
        self.requested = {}
