"""DescribeNode: how this node sees itself and its quorum. It needs no leader, and asks nobody."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING

from quorumd.ids import NO_NODE
from quorumd.node.readiness import readiness
from quorumd.node.request_router import Handler
from quorumd.node.server_session import Session
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import describe_node_response as wire

if TYPE_CHECKING:
    from quorumd.node.request_handlers import Parts


class NodeRequests:
    """Responds from what the parts of the node know."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handlers(self) -> Iterable[tuple[int, Handler]]:
        return ((ApiKey.DESCRIBE_NODE, self.describe_node),)

    def describe_node(self, session: Session, request: Request) -> None:
        parts = self._parts
        engine, log, standing = parts.engine, parts.log, parts.watch.standing()
        decision = readiness(standing)
        voted = engine.voted
        session.answer(
            request,
            wire.DescribeNodeResponse(
                0,
                standing.node_id,
                parts.watch.own.directory_id,
                parts.identity.cluster_id or "",
                standing.role,
                standing.epoch,
                standing.leader_id,
                NO_NODE if voted is None else voted.id,
                standing.is_voter,
                list(engine.voters.current.ids),
                standing.high_watermark,
                log.start_offset,
                log.end_offset,
                standing.applied_offset,
                -1 if standing.contact_ms == inf else int(standing.contact_ms),
                log.free_bytes(),
                log.has_room(),
                parts.statistics.snapshot_end_offset,
                decision.is_ready,
                list(decision.lacks),
                [wire.SilentPeer(p.node_id, int(p.silent_ms), p.reason) for p in standing.silent_peers],
                self._nodes(),
            ),
        )

    def _nodes(self) -> list[wire.KnownNode]:
        engine, discovery = self._parts.engine, self._parts.discovery
        wanted = {*engine.voters.current.ids, engine.leader_id, discovery.own_id}
        return [
            wire.KnownNode(node_id, address.host, address.port)
            for node_id, address in discovery.addresses()
            if node_id in wanted
        ]
