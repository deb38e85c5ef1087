"""One broker without data: it registers, sends heartbeats, asks for ISRs of what it leads, and is away at times."""

from __future__ import annotations

import asyncio
import time
from random import Random

from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.alter_partition_response import AlterPartitionResponse
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.isr_changes import decode_response, request_of
from quorumd.simulator.brokers.lifecycle import registration_of
from tests.chaos.fleet.history import NO_ANSWER, OK, Notes, ToldIsr
from tests.chaos.fleet.metadata import Metadata
from tests.chaos.fleet.replication import Copies
from tests.chaos.fleet.request_channel import Channel

HEARTBEAT_S = 0.5
STAYS_S = 25.0
"""How long a broker stays, on average, until it has something better to do."""
SILENT_S = (3.5, 6.0)
"""Longer than a session: it is fenced meanwhile."""
RESTARTS_S = (0.5, 2.0)
GOES_S = 10.0
"""How long it waits to be let go in a controlled shutdown before it goes all the same."""
ADDRESS = ("127.0.0.1", 9)
"""Nobody listens there, and nobody asks."""


class Broker:
    """`exit_door`: held by the broker that is away until it is back, so that there is one at most."""

    def __init__(
        self,
        broker_id: int,
        rack: str,
        cluster_id: str,
        metadata: Metadata,
        copies: Copies,
        notes: Notes,
        random: Random,
        exit_door: asyncio.Lock,
    ) -> None:
        self.id = broker_id
        self.epoch = -1
        self.stays = False
        """It does not go away any more."""
        self._rack = rack
        self._cluster_id = cluster_id
        self._metadata = metadata
        self._copies = copies
        self._notes = notes
        self._random = random
        self._exit_door = exit_door
        self._channel = Channel(f"client-broker-{broker_id}")
        self._directory = self._uuid()
        self._incarnation = self._uuid()
        self._previous_epoch = -1
        self._known: dict[PartitionId, int] = {}
        """Partition epochs that answers told of: until the observer has come to them, its image is of no use."""

    async def live(self) -> None:
        """Until it is cancelled."""
        while True:
            until = time.monotonic() + self._random.expovariate(1 / STAYS_S)
            while time.monotonic() < until or self.stays or self._exit_door.locked():
                await self._go_on()
                await asyncio.sleep(HEARTBEAT_S)
            async with self._exit_door:
                await self._random.choice((self._be_silent, self._be_killed, self._shut_down))()
                while not self._is_active:
                    await self._go_on()
                    await asyncio.sleep(HEARTBEAT_S)

    async def _go_on(self) -> None:
        if self.epoch < 0:
            await self._register()
        if self.epoch >= 0:
            await self._beat()
        if self._is_active:
            await self._propose()

    @property
    def _is_active(self) -> bool:
        registered = self._metadata.image.brokers.get(self.id)
        return registered is not None and registered.epoch == self.epoch and registered.is_active

    async def _ask(self, message: Message) -> Message | None:
        controller = self._metadata.controller
        return await self._channel.ask(controller, message) if controller else None

    def _uuid(self) -> KafkaUuid:
        return KafkaUuid(self._random.randbytes(16))

    # Lifecycle

    async def _register(self) -> None:
        request = registration_of(
            self.id,
            self._cluster_id,
            self._incarnation,
            ADDRESS,
            [self._directory],
            self._previous_epoch,
            self._rack,
        )
        answer = await self._ask(request)
        error = answer.error_code if isinstance(answer, BrokerRegistrationResponse) else None
        self._notes.note("BrokerRegistration", outcome(error))
        if isinstance(answer, BrokerRegistrationResponse) and error == ErrorCode.NONE:
            self.epoch = answer.broker_epoch

    async def _beat(self, wants_to_go: bool = False) -> bool:
        """Whether it may go, if that is what it wants."""
        request = BrokerHeartbeatRequest(
            self.id, self.epoch, self._metadata.end_offset - 1, False, wants_to_go
        )
        answer = await self._ask(request)
        error = answer.error_code if isinstance(answer, BrokerHeartbeatResponse) else None
        self._notes.note("BrokerHeartbeat", outcome(error))
        if error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self.epoch = -1
        return isinstance(answer, BrokerHeartbeatResponse) and answer.should_shut_down

    async def _be_silent(self) -> None:
        """Nothing is heard of it, as where it collects garbage, or its network is gone."""
        await asyncio.sleep(self._random.uniform(*SILENT_S))

    async def _be_killed(self) -> None:
        """Its next incarnation is refused until nobody counts on this one any more."""
        await self._restart(-1)

    async def _shut_down(self) -> None:
        """Controlled, so that others lead before it goes."""
        until = time.monotonic() + GOES_S
        while self.epoch >= 0 and time.monotonic() < until:
            if await self._beat(wants_to_go=True):
                await self._restart(self.epoch)
                return
            await asyncio.sleep(HEARTBEAT_S)
        await self._restart(-1)

    async def _restart(self, previous_epoch: int) -> None:
        self._channel.close()
        await asyncio.sleep(self._random.uniform(*RESTARTS_S))
        self.epoch, self._previous_epoch = -1, previous_epoch
        self._incarnation = self._uuid()

    # ISRs

    async def _propose(self) -> None:
        image = self._metadata.image
        proposals = [
            proposal
            for proposal in self._copies.proposals(image, self.id, time.monotonic())
            if proposal.partition_epoch >= self._known.get(proposal.where, 0)
        ]
        if not proposals:
            return
        answer = await self._ask(request_of(self.id, self.epoch, proposals))
        if isinstance(answer, AlterPartitionResponse) and answer.error_code == ErrorCode.NONE:
            self._take(answer)
            return
        error = answer.error_code if isinstance(answer, AlterPartitionResponse) else None
        for _ in proposals:
            self._notes.note("AlterPartition", outcome(error))

    def _take(self, answer: AlterPartitionResponse) -> None:
        """Of what was refused the log tells sooner or later how it is instead; then it is asked for again."""
        for where, (error, partition) in decode_response(answer).items():
            told = None
            if partition is not None:
                self._known[where] = partition.partition_epoch
                told = ToldIsr(
                    str(where.topic_id), where.number,
                    partition.partition_epoch, partition.leader_epoch, partition.isr,
                )  # fmt: skip
            self._notes.note("AlterPartition", outcome(error), told)


def outcome(error: int | None) -> str:
    """In a word; None for no answer."""
    if error is None:
        return NO_ANSWER
    return OK if error == ErrorCode.NONE else ErrorCode.describe(error)
