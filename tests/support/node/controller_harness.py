"""The requests of one node's controller: a real image, real planners and proposals, no log and no wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.controller.elections import UncleanElection
from quorumd.controller.partition import Partition, PartitionId, partition_record
from quorumd.ids import KafkaUuid
from quorumd.node.api.controller import ControllerApi, ControllerApis
from quorumd.node.api.controller_table import CONTROLLER_APIS
from quorumd.node.api.large_requests import LargeRequests
from quorumd.node.api.purgatory import ResponsePurgatory
from quorumd.node.controller.alter_partition_order import AlterPartitionOrder
from quorumd.node.sessions.server_session import Session
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.state.metadata_writer import MetadataWriter
from quorumd.node.state.proposals import Proposals
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.apis import APIS
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.wire import Message
from tests.support.node.parts import state_machine_of
from tests.support.node.recording_session import DecodingSession, RecordingSession, request_of
from tests.support.node.scripted_role import ScriptedRole

TOPIC_ID = KafkaUuid(b"the topic's id..")
FIRST_OFFSET = 1000


class ControllerHarness:
    """A node that leads until `lose_leadership`. Batches end with the turn unless `may_append` is False; they are
    committed by `commit`, and reads confirmed by `confirm`."""

    def __init__(self, apis: Mapping[int, ControllerApi] = CONTROLLER_APIS) -> None:
        self.is_leader = True
        self.has_room = True
        self.may_append = True
        self.now_ms = 0.0
        self.reads: list[Callable[[bool], None]] = []
        self.turns: list[Callable[[], None]] = []
        """What later turns of the loop are to do."""
        self.forwarded: list[Request] = []
        self.batches: list[list[Any]] = []
        self.unclean_elections: list[UncleanElection] = []
        self.statistics = NodeStatistics()
        self.order = AlterPartitionOrder()
        self.proposals = Proposals(
            self._append,
            lambda turn: turn(),
            lambda: self.may_append,
            lambda: self.now_ms,
            lambda ms, count: None,
        )
        self.controller = Controller(
            ControllerSettings(),
            lambda: "cluster",
            lambda: self.now_ms,
            lambda: self.log_end + self.proposals.pending_records,
            lambda: TOPIC_ID,
        )
        machine = state_machine_of(self.controller.image)
        writer = MetadataWriter(lambda: self.has_room, machine, self.proposals, self.unclean_elections.extend)
        answers = ResponsePurgatory(self.statistics, self.proposals, self.reads.append, self._forward)
        self.requests = ControllerApis(
            apis,
            self.controller,
            self.order,
            ScriptedRole(lambda: self.is_leader),
            writer,
            answers,
            self.statistics,
            LargeRequests(self.controller, answers, SliceScheduler(self.turns.append, 400)),
        )
        image = self.controller.image
        image.apply(FeatureLevelRecord("metadata.version", 25), [])
        image.apply(FeatureLevelRecord("eligible.leader.replicas.version", 1), [])

    @property
    def log_end(self) -> int:
        return FIRST_OFFSET + sum(map(len, self.batches))

    def ask(
        self, message: Message, session: RecordingSession | None = None, version: int | None = None
    ) -> RecordingSession:
        """The session, which keeps the answer."""
        assert message.API_KEY is not None
        session = session or DecodingSession()
        version = APIS[message.API_KEY].max_version if version is None else version
        self.requests.handle(session, request_of(message, version))
        return session

    def answer(self, message: Message, session: RecordingSession | None = None) -> Any:
        """The answer, with all that it takes to get one."""
        session = self.ask(message, session)
        self.commit()
        self.confirm()
        return session.answers[-1]

    def commit(self) -> None:
        self.proposals.committed(self.log_end)

    def confirm(self, confirmed: bool = True) -> None:
        reads, self.reads[:] = list(self.reads), []
        for outcome in reads:
            outcome(confirmed)

    def lose_leadership(self) -> None:
        """In the order of a node: what is proposed first, then the reads."""
        self.is_leader = False
        self.proposals.on_leadership_lost()
        self.confirm(False)

    def partition(self) -> Partition:
        partition = self.controller.image.partition(PartitionId(TOPIC_ID, 0))
        assert partition is not None
        return partition

    def begin_with(self, *partitions: Partition) -> None:
        """One topic with these partitions."""
        image = self.controller.image
        image.apply(TopicRecord("topic", TOPIC_ID), [])
        for number, partition in enumerate(partitions):
            image.apply(partition_record(PartitionId(TOPIC_ID, number), partition), [])

    def _append(self, values: Sequence[bytes]) -> int:
        self.batches.append([decode_record(value) for value in values])
        return self.log_end

    def _forward(self, session: Session, request: Request, hook: Any = None) -> None:
        self.forwarded.append(request)
