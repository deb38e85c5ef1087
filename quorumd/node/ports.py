"""The ports of one node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from quorumd.broker.coordinator.topic_regexes import RegexCompiler
from quorumd.ports import Clock, Disk, Entropy, Network
from quorumd.security.sasl.settings import ListenerSasl


class NodePorts(NamedTuple):
    """How one node reaches the outside."""

    clock: Clock
    entropy: Entropy
    disk: Disk
    network: Network
    compile_regex: RegexCompiler
    """Compiles the regular expressions of subscriptions."""
    sasl: Mapping[str, ListenerSasl] = {}
    """SASL settings by listener name."""
