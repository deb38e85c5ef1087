"""Each node's view of itself and the quorum, requested separately, with or without a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from quorumd.client.cluster_client import raise_on_error
from quorumd.client.connection import NodeConnection
from quorumd.client.leader_discovery import Address
from quorumd.errors import QuorumdError, RequestFailed
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import describe_quorum_request
from quorumd.protocol.messages.describe_node_request import DescribeNodeRequest
from quorumd.protocol.messages.describe_node_response import DescribeNodeResponse
from quorumd.protocol.messages.describe_quorum_response import DescribeQuorumResponse


@dataclass(frozen=True, slots=True)
class NodeView:
    """The view of one node, or the reason why there is none."""

    address: Address
    description: DescribeNodeResponse | None = None
    failure: str = ""
    is_stock: bool = False
    """Whether it is a stock controller, which reports only epoch and leader, and as leader the high watermark."""
    discovered_from: int | None = None
    """The node that reported this address; None if the address was given."""

    @property
    def name(self) -> str:
        host, port = self.address
        return f"{host}:{port}"

    @property
    def summary(self) -> str:
        """The node and its view in one line."""
        description = self.description
        if description is None:
            return f"{self.name}: {self.failure}"
        leader = (
            f"leader is node {description.leader_id}" if description.leader_id >= 0 else "no leader known"
        )
        if self.is_stock:
            return f"{self.name}: a Kafka controller in epoch {description.epoch}, {leader}"
        role = (
            description.role
            if description.role == "leader"
            else f"{description.role} in epoch {description.epoch}, {leader}"
        )
        return ", ".join(
            [f"node {description.node_id} ({self.name}): {role}", *_unresponsive_peers(description)]
        )


async def node_views(
    addresses: Sequence[Address], timeout_ms: float, *, others: bool = True
) -> list[NodeView]:
    """The views of these nodes and, with `others`, of the nodes that they report, by node id.

    `timeout_ms` applies to each node separately.
    """
    given = list(dict.fromkeys(addresses))
    views = await asyncio.gather(*(_view(address, timeout_ms) for address in given))
    if others:
        known = {
            view.description.node_id for view in views if view.description is not None and not view.is_stock
        }
        named = {
            node.node_id: ((node.host, node.port), view.description.node_id)
            for view in views
            if view.description is not None
            for node in view.description.nodes
            if node.node_id not in known and (node.host, node.port) not in given
        }
        more = [_view(address, timeout_ms, source) for address, source in named.values()]
        views += await asyncio.gather(*more)
    return sorted(
        views, key=lambda view: (view.description is None or view.is_stock, _node_id(view), view.address)
    )


def _node_id(view: NodeView) -> int:
    return view.description.node_id if view.description is not None else -1


def _unresponsive_peers(description: DescribeNodeResponse) -> list[str]:
    silent = [peer.node_id for peer in description.silent_peers]
    if not silent:
        return []
    names = " and ".join(filter(None, [", ".join(map(str, silent[:-1])), str(silent[-1])]))
    return [
        f"node{'s' if len(silent) > 1 else ''} {names} {'do' if len(silent) > 1 else 'does'} not respond to it"
    ]


async def _view(address: Address, timeout_ms: float, discovered_from: int | None = None) -> NodeView:
    connection: NodeConnection | None = None
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            connection = await NodeConnection.open(*address)
            is_stock = ApiKey.DESCRIBE_NODE not in connection.peer_ranges
            description = await (_stock_view(connection) if is_stock else _own_view(connection))
        return NodeView(address, description, is_stock=is_stock, discovered_from=discovered_from)
    except TimeoutError:
        return NodeView(
            address, None, f"no response within {timeout_ms / 1000:g} s", discovered_from=discovered_from
        )
    except QuorumdError as error:
        reason = str(error).removeprefix(f"cannot connect to {address[0]}:{address[1]}: ")
        return NodeView(address, None, reason, discovered_from=discovered_from)
    finally:
        if connection is not None:
            connection.close()


async def _own_view(connection: NodeConnection) -> DescribeNodeResponse:
    response = await connection.send(DescribeNodeRequest())
    assert isinstance(response, DescribeNodeResponse)
    raise_on_error(response.error_code, None, "DescribeNode")
    return response


async def _stock_view(connection: NodeConnection) -> DescribeNodeResponse:
    """The view of a stock controller; only the leader knows more than epoch and leader."""
    wire = describe_quorum_request
    topic = wire.TopicData(METADATA_TOPIC, [wire.PartitionData(METADATA_PARTITION)])
    response = await connection.send(wire.DescribeQuorumRequest([topic]))
    assert isinstance(response, DescribeQuorumResponse)
    raise_on_error(response.error_code, response.error_message, "DescribeQuorum")
    for found in response.topics:
        for partition in found.partitions:
            return DescribeNodeResponse(
                node_id=-1,
                voted_id=-1,
                epoch=partition.leader_epoch,
                leader_id=partition.leader_id,
                high_watermark=partition.high_watermark,
                voter_ids=[voter.replica_id for voter in partition.current_voters],
            )
    raise RequestFailed("the node does not describe the quorum")
