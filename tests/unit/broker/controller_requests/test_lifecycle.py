"""A broker registers, catches up, is unfenced, and leaves when the controller lets it go."""

from __future__ import annotations

import pytest

from quorumd.broker.controller_requests.lifecycle import BrokerLifecycle, BrokerState, LifecycleSettings
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from quorumd.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from tests.support.broker.channels import HeldChannel
from tests.support.node.virtual_time import VirtualTime
from tests.support.text import shows

EPOCH = 17
DIRECTORY = KafkaUuid(b"directory-id-001")


class BrokerUnderTest:
    """A lifecycle with its controller; satisfies `LifecycleListener`."""

    def __init__(self, **settings: float) -> None:
        self.time = VirtualTime()
        self.controller = HeldChannel(2)
        self.events: list[str] = []
        self.metadata_offset = -1
        self.offline: list[KafkaUuid] = []
        self.lifecycle = BrokerLifecycle(
            LifecycleSettings(**settings),
            self.time.clock,
            self.controller,
            lambda: BrokerRegistrationRequest(broker_id=4),
            lambda: self.metadata_offset,
            lambda: self.offline,
            lambda: [DIRECTORY],
            self,
        )
        self.lifecycle.start()

    def on_registered(self, broker_epoch: int) -> None:
        self.events.append(f"registered {broker_epoch}")

    def on_caught_up(self) -> None:
        self.events.append("caught up")

    def on_unfenced(self) -> None:
        self.events.append("unfenced")

    def on_shutdown_granted(self) -> None:
        self.events.append("shutdown granted")

    def on_controller_timeout(self, reason: str) -> None:
        self.events.append(f"failed: {reason}")

    def register(self) -> None:
        assert isinstance(self.controller.requests[-1], BrokerRegistrationRequest)
        self.controller.respond(BrokerRegistrationResponse(broker_epoch=EPOCH))

    def respond(self, **fields: bool) -> BrokerHeartbeatRequest:
        """Respond to the pending heartbeat, or to the next one, and return it."""
        waited = 0
        while not self.controller.is_open:
            self.time.pass_ms(1.0)
            waited += 1
            assert waited < 10_000, "no heartbeat"
        request = self.controller.requests[-1]
        assert isinstance(request, BrokerHeartbeatRequest)
        self.controller.respond(BrokerHeartbeatResponse(**fields))
        return request

    def run(self) -> None:
        """Until it is RUNNING."""
        self.register()
        self.respond(is_caught_up=True, is_fenced=True)
        self.lifecycle.recovered()
        self.respond(is_caught_up=True, is_fenced=False)
        assert self.lifecycle.state is BrokerState.RUNNING


def test_broker_is_unfenced_only_after_it_caught_up_and_recovered() -> None:
    broker = BrokerUnderTest()
    broker.register()
    assert broker.events == [f"registered {EPOCH}"]
    assert broker.respond(is_caught_up=False).want_fence
    broker.metadata_offset = 20
    heartbeat = broker.respond(is_caught_up=True)
    assert heartbeat.want_fence
    assert (heartbeat.broker_epoch, heartbeat.current_metadata_offset) == (EPOCH, 20)
    assert broker.lifecycle.state is BrokerState.RECOVERY
    assert broker.respond(is_caught_up=True).want_fence, "its logs are not recovered"
    broker.lifecycle.recovered()
    assert not broker.respond(is_caught_up=True, is_fenced=True).want_fence
    assert broker.events[-1] == "caught up"
    broker.respond(is_caught_up=True, is_fenced=False)
    assert broker.events[-1] == "unfenced"


def test_heartbeats_are_frequent_until_unfenced_and_regular_then() -> None:
    broker = BrokerUnderTest(heartbeat_interval_ms=2000.0)
    broker.register()
    broker.respond(is_caught_up=True)
    broker.lifecycle.recovered()
    began = broker.time.clock.now_ms()
    broker.respond(is_caught_up=True, is_fenced=True)
    broker.respond(is_caught_up=True, is_fenced=False)
    assert broker.time.clock.now_ms() - began < 50.0
    broker.time.pass_ms(1990.0)
    assert not broker.controller.is_open
    broker.time.pass_ms(11.0)
    assert broker.controller.is_open


def test_registration_is_retried_with_growing_waits_until_its_timeout() -> None:
    broker = BrokerUnderTest(registration_timeout_ms=10_000.0, max_retry_ms=2_000.0)
    waits, last = [], broker.time.clock.now_ms()
    while "failed" not in "".join(broker.events):
        broker.controller.respond(
            BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        )
        while not broker.controller.is_open and not broker.events:
            broker.time.pass_ms(10.0)
        waits.append(broker.time.clock.now_ms() - last)
        last += waits[-1]
    assert waits[:3] == [50.0, 100.0, 200.0]
    assert max(waits) == 2000.0
    assert 10_000.0 <= sum(waits) <= 12_000.0
    assert "DUPLICATE_BROKER_REGISTRATION" in broker.events[-1]
    broker.time.pass_ms(10_000.0)
    assert not broker.controller.is_open


def test_registration_that_gets_no_response_keeps_its_incarnation() -> None:
    broker = BrokerUnderTest()
    broker.controller.fail("no leader is known")
    broker.time.pass_ms(60.0)
    first, second = broker.controller.requests
    assert first is not second
    assert isinstance(first, BrokerRegistrationRequest)
    assert isinstance(second, BrokerRegistrationRequest)
    assert first.incarnation_id == second.incarnation_id


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.REQUEST_TIMED_OUT])
def test_refused_heartbeat_is_repeated_without_a_new_registration(error: ErrorCode) -> None:
    broker = BrokerUnderTest()
    broker.run()
    broker.time.pass_ms(2001.0)
    broker.controller.respond(BrokerHeartbeatResponse(error_code=error))
    broker.time.pass_ms(60.0)
    assert broker.controller.is_open
    assert broker.controller.requests[-1].API_KEY == ApiKey.BROKER_HEARTBEAT
    assert broker.lifecycle.epoch == EPOCH
    assert broker.lifecycle.state is BrokerState.RUNNING


def test_controlled_shutdown_waits_for_the_controller() -> None:
    broker = BrokerUnderTest()
    broker.run()
    broker.lifecycle.shut_down()
    heartbeat = broker.respond(should_shut_down=False)
    assert (heartbeat.want_shut_down, heartbeat.want_fence) == (True, False)
    assert broker.events[-1] == "unfenced"
    broker.respond(should_shut_down=True)
    assert broker.events[-1] == "shutdown granted"
    broker.time.pass_ms(10_000.0)
    assert not broker.controller.is_open


@pytest.mark.parametrize("heartbeat_is_pending", [False, True])
def test_shutdown_of_a_replaced_incarnation_waits_for_no_controller(heartbeat_is_pending: bool) -> None:
    """Another incarnation has registered: no controller ever grants the shutdown of this one."""
    broker = BrokerUnderTest()
    broker.run()
    if heartbeat_is_pending:
        broker.time.pass_ms(2001.0)
        assert broker.controller.is_open
    broker.lifecycle.shut_down()
    broker.time.pass_ms(1.0)
    broker.controller.respond(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert broker.events[-1] == "shutdown granted"
    assert broker.lifecycle.state is BrokerState.SHUTTING_DOWN
    broker.time.pass_ms(10_000.0)
    assert not broker.controller.is_open


def test_shutdown_continues_after_another_error() -> None:
    broker = BrokerUnderTest()
    broker.run()
    broker.lifecycle.shut_down()
    broker.time.pass_ms(1.0)
    broker.controller.respond(BrokerHeartbeatResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))
    assert broker.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    broker.respond(should_shut_down=True)
    assert broker.events[-1] == "shutdown granted"


def test_controlled_shutdown_ends_after_its_timeout_without_a_controller() -> None:
    broker = BrokerUnderTest(shutdown_timeout_ms=3000.0)
    broker.run()
    broker.lifecycle.shut_down()
    broker.time.pass_ms(1.0)
    broker.controller.fail("connection refused")
    while broker.time.clock.now_ms() and not broker.events[-1].startswith("shutdown"):
        broker.time.pass_ms(100.0)
        if broker.controller.is_open:
            broker.controller.fail("connection refused")
    assert broker.lifecycle.state is BrokerState.SHUTTING_DOWN


def test_broker_that_was_never_unfenced_shuts_down_at_once() -> None:
    broker = BrokerUnderTest()
    broker.register()
    broker.lifecycle.shut_down()
    assert broker.events[-1] == "shutdown granted"


def test_failed_and_cordoned_directories_are_reported_where_the_version_has_them() -> None:
    broker = BrokerUnderTest()
    broker.offline = [DIRECTORY]
    broker.register()
    heartbeat = broker.respond(is_caught_up=True)
    assert (heartbeat.offline_log_dirs, heartbeat.cordoned_log_dirs) == ([DIRECTORY], None)
    heartbeat = broker.respond()
    assert (heartbeat.offline_log_dirs, heartbeat.cordoned_log_dirs) == ([DIRECTORY], [DIRECTORY])
    broker.controller.version = 1
    assert broker.respond().cordoned_log_dirs is None


def test_changed_cordons_are_reported_at_once() -> None:
    broker = BrokerUnderTest()
    broker.run()
    count = len(broker.controller.requests)
    broker.time.pass_ms(100.0)
    assert len(broker.controller.requests) == count
    broker.lifecycle.cordons_changed()
    broker.time.pass_ms(1.0)
    assert len(broker.controller.requests) == count + 1


def test_failed_directory_is_reported_at_once() -> None:
    broker = BrokerUnderTest()
    broker.run()
    broker.respond(is_caught_up=True)
    broker.offline.append(DIRECTORY)
    broker.lifecycle.directory_failed()
    broker.time.pass_ms(1.0)
    assert broker.respond(is_caught_up=True).offline_log_dirs == [DIRECTORY]
    broker.time.pass_ms(1.0)
    assert not broker.controller.is_open
    for _ in range(20):
        broker.time.pass_ms(2_000.0)
        broker.respond(is_caught_up=True)
    assert broker.lifecycle.state is BrokerState.RUNNING


def test_directory_that_fails_during_a_heartbeat_is_in_the_next_one() -> None:
    broker = BrokerUnderTest()
    broker.run()
    broker.time.pass_ms(2_000.0)
    assert broker.controller.is_open
    broker.offline.append(DIRECTORY)
    broker.lifecycle.directory_failed()
    assert broker.respond(is_caught_up=True).offline_log_dirs == []
    broker.time.pass_ms(1.0)
    assert broker.respond(is_caught_up=True).offline_log_dirs == [DIRECTORY]


def test_broker_stops_if_it_cannot_report_a_failed_directory() -> None:
    broker = BrokerUnderTest(directory_failure_timeout_ms=5_000.0)
    broker.run()
    broker.offline.append(DIRECTORY)
    broker.lifecycle.directory_failed()
    broker.time.pass_ms(4_999.0)
    assert broker.lifecycle.state is BrokerState.RUNNING
    broker.time.pass_ms(1.0)
    assert shows(broker.events[-1], "failed: ", "broker 4", "log directory")
    assert broker.lifecycle.state is BrokerState.NOT_RUNNING
