"""Endpoints that follow from the settings of a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorumd.ids import Endpoint
from quorumd.node.settings import NodeListener
from tests.support.node.broker_nodes import broker_role
from tests.support.node.parts import OWN_ENDPOINT, NodeParts

OTHER = Endpoint("OTHER", "me", 9094)


@pytest.mark.parametrize(
    ("has_broker", "is_controller", "others"),
    [(False, True, (OTHER,)), (True, True, (OTHER,)), (True, False, ())],
)
def test_other_listeners_are_for_clients_if_the_broker_has_none_of_its_own(
    has_broker: bool, is_controller: bool, others: tuple[Endpoint, ...]
) -> None:
    broker = broker_role(1, is_controller) if has_broker else None
    settings = replace(NodeParts().settings, broker=broker, other_listeners=(NodeListener(OTHER, OTHER),))
    assert settings.quorum_listeners == (OWN_ENDPOINT, *others)
