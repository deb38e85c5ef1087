"""Forwarded requests, and a node that forwards them."""

from __future__ import annotations

from quorumd.node.api.error_responses import error_response
from quorumd.node.api.forwarding import Forwarder
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.connection import ClientConnection, Request, read_request
from quorumd.protocol.messages import (
    describe_configs_request,
    describe_configs_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
)
from quorumd.protocol.routes import Session
from quorumd.protocol.wire import Message
from tests.support.node.parts import NodeParts
from tests.support.node.recording_session import RecordingSession
from tests.support.node.scripted_role import ScriptedRole

TIMEOUT_MS = 2000.0
SPOKEN = {key: (api.min_version, api.max_version) for key, api in APIS.items()}


def write(version: int = 1) -> Request:
    wire = incremental_alter_configs_request
    resource = wire.AlterConfigsResource(32, "g", [wire.AlterableConfig("a", 0, "1")])
    return as_received(wire.IncrementalAlterConfigsRequest([resource]), version)


def read(version: int = 4) -> Request:
    wire = describe_configs_request
    resource = wire.DescribeConfigsResource(32, "g", None)
    return as_received(wire.DescribeConfigsRequest([resource]), version)


def as_received(message: Message, version: int) -> Request:
    """Return the request as read from a connection, including its frame."""
    connection = ClientConnection("client")
    for _ in range(3):
        _, data = connection.request(message, version)
    return read_request(data[4:], SPOKEN)


def success(request: Request) -> Message:
    """Return a response of the leader."""
    wire = incremental_alter_configs_response
    if request.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
        return wire.IncrementalAlterConfigsResponse(0, [wire.AlterConfigsResourceResponse(0, None, 32, "g")])
    return describe_configs_response.DescribeConfigsResponse(
        0, [describe_configs_response.DescribeConfigsResult(0, None, 32, "g")]
    )


class FollowerHarness(NodeParts):
    """A forwarder on a node that is not the leader unless `leads`."""

    def __init__(self) -> None:
        super().__init__()
        self.session = RecordingSession()
        self.leads = False
        self.handled: list[Request] = []
        self.admits = True
        self.forwarder = Forwarder(
            self.time.clock,
            self.call_leader,
            ScriptedRole(lambda: self.leads),
            lambda session, request: self.handled.append(request),
            error_response,
            self.admit,
            TIMEOUT_MS,
        )

    def admit(self, session: Session, request: Request) -> Session | None:
        """Allow only the first resource of a read; nothing unless `admits`."""
        request.message.resources = request.message.resources[:1]
        return session if self.admits else None

    def error(self) -> int:
        """Return the error code of the only response."""
        (response,) = self.session.responses
        code: int
        if isinstance(response, describe_configs_response.DescribeConfigsResponse):
            code = response.results[0].error_code
        else:
            code = response.responses[0].error_code
        return code
