"""Readiness for every combination of its conditions."""

from dataclasses import replace
from itertools import product
from math import inf

import pytest

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.node.readiness import MAX_LAG, NodeStatus, SilentPeer, format_duration, readiness, report
from tests.support.text import shows

READY = NodeStatus(
    node_id=1,
    role="follower",
    epoch=5,
    leader_id=2,
    contact_ms=400.0,
    contact_limit_ms=2500.0,
    high_watermark=50_000,
    applied_offset=50_000,
    max_lag=MAX_LAG,
    is_voter=True,
    is_configured_voter=True,
)

ROLES = ("leader", "follower", "observer", "candidate", "prospective", "unattached", "voted", "resigned")
CONTACTS = (0.0, 2500.0, 2500.1, inf)
STATES = ((-1, 0), (50_000, 50_000), (50_000, 50_000 - MAX_LAG), (50_000, 50_000 - MAX_LAG - 1))
VOTES = tuple(product((True, False), (True, False)))


def test_node_is_ready_only_if_every_condition_holds() -> None:
    ready = 0
    obstacles = (None, "no quorum is found")
    for role, leader_id, contact_ms, state, votes, obstacle, stopping in product(
        ROLES, (-1, 2), CONTACTS, STATES, VOTES, obstacles, (False, True)
    ):
        is_voter, is_configured = votes
        node_status = replace(
            READY,
            role=role,
            leader_id=leader_id,
            contact_ms=contact_ms,
            high_watermark=state[0],
            applied_offset=state[1],
            is_voter=is_voter,
            is_configured_voter=is_configured,
            founding_obstacle=obstacle,
            is_stopping=stopping,
        )
        has_contact = contact_ms <= 2500.0
        belongs = obstacle is None and (is_voter or not is_configured)
        has_state = state[0] >= 0 and state[0] - state[1] <= MAX_LAG
        expected = has_contact and belongs and has_state and not stopping
        assert readiness(node_status).is_ready == expected, node_status
        reports_no_contact = not has_contact and (obstacle is None or role == "leader" or leader_id >= 0)
        assert (
            len(readiness(node_status).reasons)
            == reports_no_contact + (not belongs) + (not has_state) + stopping
        )
        assert report(node_status).startswith("ready: " if expected else "not ready: ")
        ready += expected
    assert ready > 0


@pytest.mark.parametrize("state", [None, *BrokerState])
def test_node_with_a_broker_is_ready_once_that_serves_clients(state: BrokerState | None) -> None:
    decision = readiness(replace(READY, broker_state=state))
    assert decision.is_ready == (state in (None, BrokerState.RUNNING))
    assert all("the broker" in text for text in decision.reasons)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"contact_ms": 3200.0}, "node 2, the leader, has not served a fetch for 3.2 s"),
        ({"contact_ms": inf}, "node 2, the leader known last, has not served a fetch"),
        ({"contact_ms": inf, "leader_id": -1}, "no leader is known"),
        ({"role": "leader", "contact_ms": 2600.0}, "no majority of the voters has fetched for 2.6 s"),
        (
            {"contact_ms": inf, "leader_id": -1, "founding_obstacle": "no node founds the cluster"},
            "no node founds the cluster",
        ),
        ({"high_watermark": -1}, "the high watermark is not known"),
        ({"applied_offset": 39_999}, "10,001 of 50,000 committed records are not applied yet"),
        (
            {"is_joining": True, "is_voter": False},
            "node 1 has no vote yet and requests one (controller.quorum.auto.join.enable)",
        ),
        ({"is_stopping": True}, "the node is shutting down"),
        ({"loaded_records": 12_300}, "a snapshot is being loaded, 12,300 records so far"),
        ({"loaded_records": 0}, "a snapshot is being loaded, 0 records so far"),
        (
            {"replay_end": 50_100},
            "100 records that were known to be committed at the start are not applied yet",
        ),
    ],
)
def test_missing_conditions_are_named(changes: dict[str, object], text: str) -> None:
    assert readiness(replace(READY, **changes)).reasons == (text,)  # type: ignore[arg-type]  # fields by name


def test_configured_voter_without_vote_is_reported_with_the_remedy() -> None:
    (text,) = readiness(replace(READY, is_voter=False)).reasons
    assert shows(text, "quorum.voters", "node 1", "no vote", "`quorumd quorum alter")


def test_report_names_role_and_silent_peers() -> None:
    peers = (SilentPeer(3, 34_000.0, "10.0.0.3:9192: connection refused"),)
    silent = ("node 3", "34 s", "10.0.0.3:9192: connection refused")
    standing, peer = report(replace(READY, silent_peers=peers)).splitlines()
    assert standing.startswith("ready: ")
    assert shows(standing, "follower", "epoch 5", "node 2")
    assert shows(peer, *silent)
    lost = replace(READY, role="candidate", epoch=12, leader_id=-1, contact_ms=inf, silent_peers=peers)
    standing, reason, peer = report(lost).splitlines()
    assert shows(standing, "not ready: ", "candidate", "epoch 12")
    assert "no leader" in reason
    assert shows(peer, *silent)
    assert replace(READY, role="leader").summary == "leader of epoch 5"


def test_durations_are_human_readable() -> None:
    assert [format_duration(ms) for ms in (0.0, 1000.0, 2345.0, 9_949.0, 75_400.0, 3_600_000.0)] == [
        "0 ms",
        "1.0 s",
        "2.3 s",
        "9.9 s",
        "75 s",
        "3,600 s",
    ]
