"""Reads through every node once faults have ended, which must return what administrators have set."""

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
from quorumd.simulator.checkers.administration import AdministratorsAreObeyed, Requested
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.liveness.repeated_request import RepeatedRequests
from quorumd.simulator.workload.config_administrator import DESCRIBE_VERSION, HOST, describe_request

METADATA_VERSION: Final = 12
EXPECTED: Final = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_TOPIC,
    ErrorCode.INVALID_REQUEST,
)
"""The results that a resource may have. Topics may be deleted, and operators also request topics with invalid
names."""


def require_credentials(cluster: Cluster) -> None:
    """Require that every node has the credentials with which the cluster was formatted, unless other records may have
    replaced them, or a voter with another directory founded the cluster. Raises InvariantViolation."""
    options = cluster.options
    if options.kept_records_ms or any(cluster.machines[voter].directories_made for voter in cluster.voters):
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
        self._requests = RepeatedRequests(cluster, self.unserved, run_until)

    def require(self) -> None:
        """Read through every node. Raises InvariantViolation."""
        resources = self._checker.resources
        for machine in self._cluster.running():
            address = (machine.host, machine.port)
            if resources:
                self._requests.require(
                    HOST, address, describe_request(resources), DESCRIBE_VERSION, self._undescribed
                )
            self._requests.require(HOST, address, MetadataRequest(None), METADATA_VERSION, self._unlisted)

    def _undescribed(self, message: Message, requested_ms: float) -> str:
        if not isinstance(message, DescribeConfigsResponse):
            return f"{list(errors_in(message))}"
        now_ms = self._cluster.heap.now_ms
        self._checker.responded(Requested(message, requested_ms, []), message, now_ms)
        failed = [result.error_code for result in message.results if result.error_code not in EXPECTED]
        return f"errors {failed}" if failed else ""

    def _unlisted(self, message: Message, requested_ms: float) -> str:
        """Describe a difference of a node's topics from the model, "" if there is none. The node may still apply the
        last committed records."""
        if not isinstance(message, MetadataResponse):
            return f"{list(errors_in(message))}"
        try:
            self._checker.listed(message, requested_ms, self._cluster.heap.now_ms)
        except InvariantViolation as difference:
            return difference.text
        return ""
