"""The ports of one node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from quorumd.ports import Clock, Disk, Entropy, Network
from quorumd.security.sasl.settings import ListenerSasl


class NodePorts(NamedTuple):
    """How one node reaches the outside. `sasl`: by the name of the listener."""

    clock: Clock
    entropy: Entropy
    disk: Disk
    network: Network
    sasl: Mapping[str, ListenerSasl] = {}
