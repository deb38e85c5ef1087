"""Which node is contacted next, and when."""

from __future__ import annotations

import pytest

from quorumd.client.leader_discovery import LeaderDiscovery, NodeAddress, Retries
from quorumd.errors import ErrorCode, RequestFailed
from tests.support.text import shows

NODES = tuple(NodeAddress(number, f"host-{number}", 9192) for number in range(3))
NO_LEADER = RequestFailed("no leader", ErrorCode.NOT_CONTROLLER)


def test_failure_moves_to_next_address_and_forgets_leader() -> None:
    discovery = LeaderDiscovery([("seed", 1), ("host-0", 9192)])
    discovery.nodes, discovery.leader = NODES, NODES[1]
    assert discovery.addresses == (("seed", 1), *(node.address for node in NODES))
    assert discovery.next_address == ("seed", 1)
    discovery.on_failure()
    assert (discovery.next_address, discovery.leader, discovery.nodes) == (NODES[0].address, None, NODES)


def test_failed_node_is_looked_up_again() -> None:
    discovery = LeaderDiscovery([("seed", 1)])
    discovery.nodes = NODES
    discovery.on_failure(1)
    assert (discovery.node(0), discovery.node(1)) == (NODES[0], None)


def test_only_first_retry_at_known_leader_is_immediate() -> None:
    retries = Retries("fetching", 10, now_s=0)
    assert retries.wait_s(NO_LEADER, 0, leader_is_known=True) == 0
    assert retries.wait_s(NO_LEADER, 0, leader_is_known=True) > 0
    assert Retries("fetching", 10, now_s=0).wait_s(NO_LEADER, 0) > 0


def test_retries_end_at_deadline_with_last_error() -> None:
    retries = Retries("fetching", 10, now_s=0)
    retries.wait_s(RequestFailed("refused"), 5)
    with pytest.raises(RequestFailed) as failed:
        retries.wait_s(NO_LEADER, 10)
    assert shows(str(failed.value), "fetching", "10 s", "no leader")
    assert failed.value.error_code == ErrorCode.NOT_CONTROLLER
