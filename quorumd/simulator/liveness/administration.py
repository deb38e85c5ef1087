"""Reads through every node once faults have ended: nodes report what administrators have set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.controller.opaque_records import OPAQUE_KEYS
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.administration import AdministratorsAreObeyed
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.workload.config_administrator import DESCRIBE_VERSION, HOST, describe_request
from quorumd.simulator.workload.request_connection import RequestConnection

METADATA_VERSION: Final = 12
WITHIN_MS: Final = 5000.0
"""A node that follows a leader applies the last records, and forwards a request, within this time."""
CHECK_INTERVAL_MS: Final = 20.0
RETRY_MS: Final = 500.0
EXPECTED: Final = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_TOPIC,
    ErrorCode.INVALID_REQUEST,
)
"""Operators also request topics with invalid names."""


def require_credentials(cluster: Cluster) -> None:
    """Require that every node has the credentials with which the cluster was formatted, unless other records may have
    replaced them, or a voter with another folder founded the cluster. Raises InvariantViolation."""
    options = cluster.options
    if options.kept_records_ms or any(cluster.machines[voter].folders_made for voter in cluster.voters):
        return
    wanted = {OPAQUE_KEYS[type(record)](record) for record in options.features.credential_records()}
    for machine in cluster.running():
        found = machine.node.state_machine.image.opaque_records if machine.node is not None else {}
        if missing := sorted(wanted - found.keys()):
            raise InvariantViolation(
                "formatted credentials survive", f"node {machine.node_id} lacks {missing}"
            )


class LastReads:
    """Reads all configs and topics of the model through every running node."""

    unserved = "every node describes configs and topics"

    def __init__(
        self, cluster: Cluster, checker: AdministratorsAreObeyed, run_until: Callable[[float], None]
    ) -> None:
        self._cluster = cluster
        self._checker = checker
        self._run_until = run_until
        self._process = Process("last reads")
        self._link: RequestConnection | None = None
        self._missing = ""

    def require(self) -> None:
        """Read through every node. Raises InvariantViolation."""
        resources = self._checker.resources
        for machine in self._cluster.running():
            address = (machine.host, machine.port)
            if resources:
                self._read(address, describe_request(resources), DESCRIBE_VERSION)
            self._read(address, MetadataRequest(None), METADATA_VERSION)

    def _read(self, address: tuple[str, int], request: Message, version: int) -> None:
        heap = self._cluster.heap
        deadline_ms, next_ms = heap.now_ms + WITHIN_MS, heap.now_ms
        self._missing = "no response"
        while self._missing:
            if heap.now_ms >= deadline_ms:
                name = type(request).__name__
                raise InvariantViolation(self.unserved, f"{name} to {address[0]}: {self._missing}")
            if heap.now_ms >= next_ms:
                next_ms = heap.now_ms + RETRY_MS
                self._send(address, request, version)
            self._run_until(heap.now_ms + CHECK_INTERVAL_MS)

    def _send(self, address: tuple[str, int], request: Message, version: int) -> None:
        if self._link is not None:
            self._link.abandon()
        requested = self._checker.requested(request, self._cluster.heap.now_ms)

        def on_response(message: Message | None) -> None:
            now_ms = self._cluster.heap.now_ms
            if isinstance(message, DescribeConfigsResponse):
                failed = [r.error_code for r in message.results if r.error_code not in EXPECTED]
                self._missing = f"errors {failed}" if failed else ""
                self._checker.responded(requested, message, now_ms)
            elif isinstance(message, MetadataResponse):
                self._missing = self._unlisted(message, requested.requested_ms)
            elif message is not None:
                self._missing = f"{list(errors_in(message))}"

        self._link = RequestConnection("last reads", request, version, on_response)
        self._cluster.network.host(HOST, self._process).connect(*address, self._link)

    def _unlisted(self, message: MetadataResponse, requested_ms: float) -> str:
        """Describe a difference of a node's topics from the model, "" if there is none. The node may still apply the
        last committed records."""
        try:
            self._checker.listed(message, requested_ms, self._cluster.heap.now_ms)
        except InvariantViolation as difference:
            return difference.text
        return ""
