"""The parts of a node that its sessions share."""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.node.basics import NodeBasics
from quorumd.node.sessions.authentication import Authenticator
from quorumd.node.sessions.fair_shares import FairShares
from quorumd.node.tick import Tick
from quorumd.quotas.client_quotas import ClientQuotas


@dataclass(frozen=True, slots=True)
class SessionContext:
    """The parts that every accepted connection is built from, whatever its listener."""

    node: NodeBasics
    tick: Tick
    authenticator: Authenticator
    shares: FairShares
    quotas: ClientQuotas
