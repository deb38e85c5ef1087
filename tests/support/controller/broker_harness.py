"""Brokers with real planners: each plan is applied immediately, as if it were committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quorumd.controller.broker import Broker
from quorumd.controller.broker_heartbeat import plan_broker_heartbeat, record_heartbeat
from quorumd.controller.broker_lifecycle import fence
from quorumd.controller.broker_registration import (
    plan_broker_registration,
    plan_unregister_broker,
    renew_session,
)
from quorumd.controller.cluster_image import METADATA_VERSION
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from tests.support.controller.partition_harness import PartitionHarness

EVERYTHING = ((METADATA_VERSION, 1, 33), *SUPPORTED_FEATURES[1:])


def incarnation(broker_id: int, start: int) -> KafkaUuid:
    """Return the incarnation id of a start of a broker; brokers of a harness initially have start 0."""
    return KafkaUuid(bytes([broker_id + 1]) * 15 + bytes([broker_id + 1 + start]))


def directory(broker_id: int) -> KafkaUuid:
    return KafkaUuid(bytes([broker_id + 1]) * 16)


def registration(broker_id: int, start: int = 0, **fields: Any) -> BrokerRegistrationRequest:
    """Build the registration of a broker that supports every feature."""
    defaults: dict[str, Any] = {
        "cluster_id": "cluster",
        "incarnation_id": incarnation(broker_id, start),
        "listeners": [Listener("PLAINTEXT", f"broker-{broker_id}", 9092, 0)],
        "features": [Feature(*feature) for feature in EVERYTHING],
        "rack": None,
        "log_dirs": [directory(broker_id)],
    }
    return BrokerRegistrationRequest(broker_id, **(defaults | fields))


@dataclass
class BrokerHarness(PartitionHarness):
    """Registered brokers, and requests about them. `last` is the latest plan."""

    last: ControllerResult = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.controller.image.apply(FeatureLevelRecord(METADATA_VERSION, 25), [])
        self.controller.sessions.begin(self.controller.image.brokers.values(), self.now_ms)

    def broker(self, broker_id: int) -> Broker:
        return self.controller.image.brokers[broker_id]

    def register(self, broker_id: int, start: int = 0, **fields: Any) -> Any:
        request = registration(broker_id, start, **fields)
        renew_session(self.controller, request)
        return self._carry_out(plan_broker_registration(self.controller, request, 4))

    def heartbeat(self, broker_id: int, offset: int | None = None, **fields: Any) -> Any:
        """Send a heartbeat, by default with the offset of a caught-up broker; return the response."""
        fields = {"broker_epoch": self.epoch_of(broker_id)} | fields
        offset = self.next_offset - 1 if offset is None else offset
        request = BrokerHeartbeatRequest(broker_id, current_metadata_offset=offset, **fields)
        record_heartbeat(self.controller, request)
        return self._carry_out(plan_broker_heartbeat(self.controller, request, 2))

    def unregister(self, broker_id: int) -> Any:
        return self._carry_out(plan_unregister_broker(self.controller, UnregisterBrokerRequest(broker_id), 0))

    def fall_silent(self, broker_id: int) -> None:
        """Let the session of a broker expire, so that it is fenced."""
        sessions = self.controller.sessions
        sessions.touch(broker_id, self.epoch_of(broker_id), -1, self.now_ms - sessions.timeout_ms)
        self.last = ControllerResult(fence(self.controller, self.broker(broker_id)), BrokerHeartbeatRequest())
        self.apply(*self.last.records)

    def kinds(self) -> list[str]:
        """Return the record types of the latest plan."""
        return [type(record).__name__ for record in self.last.records]

    def _carry_out(self, plan: ControllerResult) -> Any:
        self.last = plan
        self.apply(*plan.records)
        return plan.response
