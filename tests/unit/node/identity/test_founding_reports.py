"""Reports of peers: whether a node may found a quorum, and the nodes that it still queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.identity.founding import FORMATTED_WAIT_MS, Founding, Standing
from quorumd.protocol.messages.discover_brokers_response import DiscoverBrokersResponse, Founder
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from tests.support.node.parts import CLUSTER_ID, OWN_ENDPOINT, NodeParts
from tests.support.node.scripted_engine import ScriptedEngine, voters_of

ADDRESSES = {2: ("two", 9092), 3: ("three", 9092)}


NO_FOUNDERS = VoterSet()


def directory(node_id: int) -> KafkaUuid:
    """The directory id of a node; that of node 1 is OWN's."""
    return KafkaUuid(bytes(15) + bytes([0x41 + node_id]))


FOUNDERS = VoterSet(
    tuple(
        Voter(ReplicaKey(node_id, directory(node_id)), (Endpoint("CONTROLLER", *address),))
        for node_id, address in {1: ("me", 9092), **ADDRESSES}.items()
    )
)


def founding(
    formatted: VoterSet | None, seeds: dict[int, tuple[str, int]] = ADDRESSES, **engine: Any
) -> Founding:
    """The founding of node 1, blank unless `engine` says otherwise."""
    blank: dict[str, Any] = {
        "leader_id": -1,
        "is_leader": False,
        "is_voter": False,
        "voters": voters_of(),
        "log_is_empty": True,
        "is_blank": True,
        "epoch": 0,
    }
    parts = NodeParts()
    parts.engine = ScriptedEngine(**(blank | engine))
    parts.settings = replace(
        parts.settings,
        voter_addresses=tuple((node_id, *address) for node_id, address in seeds.items()),
        bootstrap_voters=(1, 2, 3),
    )
    found = parts.founding(formatted)
    found.start(OWN_ENDPOINT)
    return found


def report(
    node_id: int, standing: Standing = Standing.BLANK, founders: VoterSet = NO_FOUNDERS
) -> DiscoverBrokersResponse:
    named = [
        Founder(v.key.id, v.key.directory_id, *ADDRESSES.get(v.key.id, ("me", 9092))) for v in founders.voters
    ]
    return DiscoverBrokersResponse(
        cluster_id=CLUSTER_ID,
        replica_id=node_id,
        replica_directory_id=directory(node_id),
        standing=standing,
        founders=named,
    )


def test_founders_are_queried_although_no_property_names_them() -> None:
    waiting = founding(FOUNDERS, seeds={})
    assert waiting.permitted_founders(0.0) is None
    assert "two:9092, three:9092" in (waiting.obstacle(0.0) or "")


def test_founders_wait_only_for_those_that_have_not_responded() -> None:
    waiting = founding(FOUNDERS)
    waiting.record_report(ADDRESSES[2], report(2, Standing.FOUNDER, FOUNDERS), 0.0)
    obstacle = waiting.obstacle(0.0) or ""
    assert "three:9092" in obstacle
    assert "two:9092" not in obstacle
    waiting.on_unreachable(ADDRESSES[3], 1.0)
    assert waiting.permitted_founders(1.0) == FOUNDERS
    assert waiting.obstacle(1.0) is None


def test_founders_wait_for_a_limited_time() -> None:
    waiting = founding(FOUNDERS)
    assert waiting.permitted_founders(0.0) is None
    assert waiting.permitted_founders(FORMATTED_WAIT_MS - 1) is None
    assert waiting.permitted_founders(FORMATTED_WAIT_MS) == FOUNDERS


def test_founders_of_another_set_are_a_conflict() -> None:
    waiting = founding(FOUNDERS)
    waiting.record_report(ADDRESSES[2], report(2, Standing.FOUNDER, FOUNDERS.without(3)), 0.0)
    assert waiting.permitted_founders(FORMATTED_WAIT_MS) is None
    assert "--initial-controllers" in (waiting.obstacle(FORMATTED_WAIT_MS) or "")


def test_configured_node_founds_what_founders_offer() -> None:
    waiting = founding(None)
    for node_id in (2, 3):
        waiting.record_report(ADDRESSES[node_id], report(node_id, Standing.FOUNDER, FOUNDERS), 0.0)
    found = waiting.permitted_founders(0.0)
    assert found is not None
    assert [voter.key for voter in found.voters] == [voter.key for voter in FOUNDERS.voters]


def test_configured_voters_are_queried_when_they_send_a_request() -> None:
    waiting = founding(None)
    assert waiting.needs_report_from(ADDRESSES[2], 2, 0.0)
    assert not waiting.needs_report_from(("nine", 9092), 9, 0.0), "not a configured voter"
    waiting.record_report(ADDRESSES[2], report(2), 0.0)
    assert not waiting.needs_report_from(ADDRESSES[2], 2, 1.0), "it has reported"
    member = founding(None, log_is_empty=False)
    assert not member.needs_report_from(ADDRESSES[2], 2, 0.0), "this node has a quorum"


def test_voter_with_another_one_that_responds_has_no_obstacle() -> None:
    """Two of three voters can elect a leader; this one does not report to itself."""
    member = founding(None, log_is_empty=False, is_voter=True, voters=VoterAssignment(FOUNDERS))
    assert "node 2 does not respond" in (member.obstacle(0.0) or "")
    member.record_report(ADDRESSES[2], report(2, Standing.MEMBER), 0.0)
    assert member.obstacle(0.0) is None


def test_node_with_a_leader_has_no_obstacle_whatever_its_id() -> None:
    assert founding(FOUNDERS, leader_id=0).obstacle(0.0) is None
    assert founding(FOUNDERS, leader_id=0).permitted_founders(FORMATTED_WAIT_MS) is None


def test_obstacle_is_logged_once_it_has_lasted_and_again_after_it_was_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    founding = NodeParts().founding()
    present: list[str | None] = [None]
    monkeypatch.setattr(founding, "obstacle", lambda now: present[0])
    assert founding.new_obstacle(0.0) is None
    for begin_ms in (0.0, 10_000.0):
        present[0] = "no majority"
        assert [founding.new_obstacle(begin_ms + ms) for ms in (0.0, 1499.0)] == [None, None]
        assert founding.new_obstacle(begin_ms + 1500.0) == "no majority"
        assert [founding.new_obstacle(begin_ms + ms) for ms in (1501.0, 5000.0)] == [None, None]
        present[0] = None
        assert founding.new_obstacle(begin_ms + 5001.0) is None
