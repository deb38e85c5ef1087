"""DescribeNode: the state of this node and its view of the quorum; works without a leader."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from quorumd.ids import NO_NODE
from quorumd.node.api.context import ApiContext
from quorumd.node.api.endpoints import NodeEndpoints
from quorumd.node.readiness import readiness
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import describe_node_response as wire
from quorumd.protocol.messages.describe_node_request import DescribeNodeRequest
from quorumd.protocol.routes import Route, Session


class NodeApis:
    """Handles DescribeNode."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._endpoints = NodeEndpoints(context)

    def routes(self) -> Iterable[Route]:
        return (Route(DescribeNodeRequest, self.describe_node),)

    def describe_node(self, session: Session, request: Request[DescribeNodeRequest]) -> None:
        context = self._context
        engine, log, node_status = (
            context.quorum.engine,
            context.quorum.log,
            context.peers.monitor.node_status(),
        )
        decision = readiness(node_status)
        voted = engine.voted
        session.respond(
            request,
            wire.DescribeNodeResponse(
                0,
                node_status.node_id,
                context.quorum.own.directory_id,
                context.quorum.identity.cluster_id or "",
                node_status.role,
                node_status.epoch,
                node_status.leader_id,
                NO_NODE if voted is None else voted.id,
                node_status.is_voter,
                list(engine.voters.current.ids),
                node_status.high_watermark,
                log.start_offset,
                log.end_offset,
                node_status.applied_offset,
                -1 if node_status.contact_ms == inf else int(node_status.contact_ms),
                log.free_bytes(),
                log.has_free_space(),
                context.node.statistics.snapshot_end_offset,
                decision.is_ready,
                list(decision.reasons),
                [wire.SilentPeer(p.node_id, int(p.silent_ms), p.reason) for p in node_status.silent_peers],
                self._nodes(session.origin.listener),
            ),
        )

    def _nodes(self, listener: str) -> list[wire.KnownNode]:
        """The nodes of the quorum with their endpoints for clients of this listener."""
        engine, discovery = self._context.quorum.engine, self._context.peers.discovery
        wanted = {*engine.voters.current.ids, engine.leader_id, discovery.own_id}
        return [
            wire.KnownNode(node_id, endpoint.host, endpoint.port)
            for node_id, _ in discovery.addresses()
            if node_id in wanted and (endpoint := self._endpoints.endpoint_of(node_id, listener)) is not None
        ]
