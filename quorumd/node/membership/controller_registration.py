"""Registers this node as a controller (KIP-919, ControllerRegistration).

Like a stock controller, the node sends registrations to the active controller until the image has one of this
incarnation. If a late request of a previous incarnation replaces the registration, or an operator removes it, the
node registers again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf

from quorumd.controller.controller_registration import plan_controller_registration
from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint, KafkaUuid
from quorumd.node.api.context import MetadataParts
from quorumd.node.basics import NodeBasics
from quorumd.node.leader_role import LeaderRole
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.peers.leader_request import LeaderRequest
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import controller_registration_request as wire
from quorumd.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from quorumd.protocol.wire import Message

logger = logging.getLogger("quorumd.node")

FIRST_WAIT_MS = 500.0
MAX_WAIT_MS = 8_000.0
"""Bounds of the wait between two requests. It doubles with each one and is reset once a registration has lasted for
MAX_WAIT_MS, so that two processes with the same id replace each other slowly."""
PLAINTEXT = 0


class ControllerRegistration:
    """Registers one incarnation of a node.

    `call_leader(call) -> bool` sends to the leader; False if no leader is known, or if it is this node.
    """

    def __init__(
        self,
        incarnation_id: KafkaUuid,
        node: NodeBasics,
        role: LeaderRole,
        metadata: MetadataParts,
        call_leader: Callable[[Call], bool],
    ) -> None:
        settings = node.settings
        self.incarnation_id = incarnation_id
        self._node_id = settings.node_id
        self._clock = node.clock
        self._state_machine = metadata.state_machine
        self._controller = metadata.controller
        self._writer = metadata.writer
        self._role = role
        self._security_protocols = settings.security_protocols
        self._to_leader = LeaderRequest(node.clock, call_leader, settings.request_timeout_ms)
        self._is_writing = False
        self._requested_ms = -inf
        self._wait_ms = FIRST_WAIT_MS

    def update(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Request a registration if the image lacks it and the last request was long enough ago.

        Called periodically with this node's own endpoints.
        """
        since_ms = self._clock.now_ms() - self._requested_ms
        image = self._state_machine.image
        registered = image.controllers.get(self._node_id)
        if registered is not None and registered.incarnation_id == self.incarnation_id:
            if since_ms > MAX_WAIT_MS:
                self._wait_ms = FIRST_WAIT_MS
            return
        # Without a metadata version the bootstrap records of the cluster are not written yet.
        is_pending = self._is_writing or self._to_leader.is_pending
        if not is_pending and since_ms >= self._wait_ms and image.metadata_version:
            self._request(endpoints)

    def _request(self, endpoints: tuple[Endpoint, ...]) -> None:
        message = wire.ControllerRegistrationRequest(
            self._node_id,
            self.incarnation_id,
            False,
            [wire.Listener(*each, self._security_protocols.get(each.name, PLAINTEXT)) for each in endpoints],
            [wire.Feature(name, lowest, highest) for name, lowest, highest in SUPPORTED_FEATURES],
        )
        if self._role.is_active_controller:
            is_requested = self._is_writing = self._register_locally(message)
        else:
            is_requested = self._to_leader.send(
                ApiKey.CONTROLLER_REGISTRATION, lambda version: message, self._on_response, self._on_failure
            )
        if is_requested:
            self._requested_ms = self._clock.now_ms()
            self._wait_ms = min(2 * self._wait_ms, MAX_WAIT_MS)

    def _register_locally(self, message: wire.ControllerRegistrationRequest) -> bool:
        """Write the registration as the active controller. Returns whether it was written."""
        if not self._writer.has_free_space():
            return False
        plan = plan_controller_registration(self._controller, message, 0)
        return bool(plan.records) and self._writer.write_batch(plan.records, self._on_commit)

    def _on_commit(self, committed: bool) -> None:
        self._is_writing = False
        if committed:
            self._report_registered()

    def _on_response(self, response: Message) -> None:
        assert isinstance(response, ControllerRegistrationResponse)
        if response.error_code == ErrorCode.NONE:
            self._report_registered()
            return
        error = ErrorCode.describe(response.error_code)
        level = logging.DEBUG if response.error_code == ErrorCode.NOT_CONTROLLER else logging.WARNING
        reason = f"{error}: {response.error_message}" if response.error_message else error
        logger.log(level, "controller %d is not registered yet; retrying: %s", self._node_id, reason)

    def _on_failure(self, failure: Failure) -> None:
        logger.debug("controller %d is not registered yet; retrying: %s", self._node_id, failure.reason)

    def _report_registered(self) -> None:
        logger.info("controller %d is registered, incarnation %s", self._node_id, self.incarnation_id)
