"""A broker without data: it registers, sends heartbeats, proposes ISRs as leader, and fails at random times."""

from __future__ import annotations

import asyncio
import time
from random import Random

from quorumd.broker.controller_requests.alter_partition import build_request, decode_response
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.alter_partition_response import AlterPartitionResponse
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.lifecycle import registration_of
from tests.chaos.fleet.history import NO_RESPONSE, OK, CommittedIsr, HistoryWriter
from tests.chaos.fleet.metadata import Metadata
from tests.chaos.fleet.replication import Copies
from tests.chaos.fleet.request_channel import Channel

HEARTBEAT_S = 0.5
STAYS_S = 25.0
"""Mean time until a broker fails or shuts down."""
SILENT_S = (3.5, 6.0)
"""Time without heartbeats: longer than a session, so that the broker is fenced."""
RESTARTS_S = (0.5, 2.0)
GOES_S = 10.0
"""Timeout of a controlled shutdown."""
ADDRESS = ("127.0.0.1", 9)
"""The advertised address, to which no client connects."""


class Broker:
    """A broker without data.

    A broker holds `exit_door`, which all brokers share, from its failure until it is active again, so that at most
    one is down.
    """

    def __init__(
        self,
        broker_id: int,
        rack: str,
        cluster_id: str,
        metadata: Metadata,
        copies: Copies,
        history: HistoryWriter,
        random: Random,
        exit_door: asyncio.Lock,
    ) -> None:
        self.id = broker_id
        self.epoch = -1
        self.stays = False
        """Whether no more failures are started."""
        self._rack = rack
        self._cluster_id = cluster_id
        self._metadata = metadata
        self._copies = copies
        self._history = history
        self._random = random
        self._exit_door = exit_door
        self._channel = Channel(f"client-broker-{broker_id}")
        self._directory = self._uuid()
        self._incarnation = self._uuid()
        self._previous_epoch = -1
        self._known: dict[PartitionId, int] = {}
        """The latest partition epochs in responses; no changes of older states are proposed."""

    async def live(self) -> None:
        """Run until cancelled."""
        while True:
            until = time.monotonic() + self._random.expovariate(1 / STAYS_S)
            while time.monotonic() < until or self.stays or self._exit_door.locked():
                await self._send_requests()
                await asyncio.sleep(HEARTBEAT_S)
            async with self._exit_door:
                await self._random.choice((self._be_silent, self._be_killed, self._shut_down))()
                while not self._is_active:
                    await self._send_requests()
                    await asyncio.sleep(HEARTBEAT_S)

    async def _send_requests(self) -> None:
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

    async def _request(self, message: Message) -> Message | None:
        controller = self._metadata.controller
        return await self._channel.send(controller, message) if controller else None

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
        response = await self._request(request)
        error = response.error_code if isinstance(response, BrokerRegistrationResponse) else None
        self._history.record("BrokerRegistration", outcome(error))
        if isinstance(response, BrokerRegistrationResponse) and error == ErrorCode.NONE:
            self.epoch = response.broker_epoch

    async def _beat(self, wants_shutdown: bool = False) -> bool:
        """Send a heartbeat, and return True if a requested shutdown is permitted."""
        request = BrokerHeartbeatRequest(
            self.id, self.epoch, self._metadata.end_offset - 1, False, wants_shutdown
        )
        response = await self._request(request)
        error = response.error_code if isinstance(response, BrokerHeartbeatResponse) else None
        self._history.record("BrokerHeartbeat", outcome(error))
        if error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self.epoch = -1
        return isinstance(response, BrokerHeartbeatResponse) and response.should_shut_down

    async def _be_silent(self) -> None:
        """Send no heartbeats, as in a long garbage collection or network failure."""
        await asyncio.sleep(self._random.uniform(*SILENT_S))

    async def _be_killed(self) -> None:
        """Restart without a shutdown: the next incarnation is rejected until the session of this one has expired."""
        await self._restart(-1)

    async def _shut_down(self) -> None:
        """Restart after a controlled shutdown, or after a timeout without permission."""
        until = time.monotonic() + GOES_S
        while self.epoch >= 0 and time.monotonic() < until:
            if await self._beat(wants_shutdown=True):
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
            if proposal.partition_epoch >= self._known.get(proposal.partition, 0)
        ]
        if not proposals:
            return
        response = await self._request(build_request(self.id, self.epoch, proposals))
        if isinstance(response, AlterPartitionResponse) and response.error_code == ErrorCode.NONE:
            self._record_response(response)
            return
        error = response.error_code if isinstance(response, AlterPartitionResponse) else None
        for _ in proposals:
            self._history.record("AlterPartition", outcome(error))

    def _record_response(self, response: AlterPartitionResponse) -> None:
        """Record a response. Rejected proposals are repeated once the image has the partition's current state."""
        for where, (error, committed) in decode_response(response).items():
            isr = None
            if committed is not None:
                self._known[where] = committed.partition_epoch
                isr = CommittedIsr(
                    str(where.topic_id), where.number,
                    committed.partition_epoch, committed.leader_epoch, committed.isr,
                )  # fmt: skip
            self._history.record("AlterPartition", outcome(error), isr)


def outcome(error: int | None) -> str:
    """Return the outcome for an error code, or for a missing response if it is None."""
    if error is None:
        return NO_RESPONSE
    return OK if error == ErrorCode.NONE else ErrorCode.describe(error)
