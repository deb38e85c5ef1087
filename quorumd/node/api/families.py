"""The list of API families that a node serves."""

from __future__ import annotations

from quorumd.node.api.cluster import ClusterApis
from quorumd.node.api.configs import ConfigApis
from quorumd.node.api.context import ApiContext
from quorumd.node.api.controller import ControllerApis
from quorumd.node.api.describe_node import NodeApis
from quorumd.node.api.envelopes import EnvelopeApis
from quorumd.node.api.quorum import QuorumApis
from quorumd.node.api.sasl import SaslApis
from quorumd.node.api.security import SecurityApis
from quorumd.node.api.topics import TopicApis
from quorumd.node.api.voters import VoterApis

_FAMILIES = (
    QuorumApis,
    VoterApis,
    ClusterApis,
    TopicApis,
    ConfigApis,
    ControllerApis,
    SecurityApis,
    EnvelopeApis,
    NodeApis,
    SaslApis,
)


def add_routes(context: ApiContext) -> None:
    """Add the routes of every family to the router of the context."""
    for family in _FAMILIES:
        context.gates.router.add(context.gates.authorization.guard(family(context).routes()))
    context.gates.router.add(context.gates.authorization.guard(context.peers.discovery.routes()))
