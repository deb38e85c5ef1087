"""Log lines about roles and leaders, and those that are suppressed."""

import logging
from dataclasses import replace
from math import inf

import pytest

from quorumd.node.health.election_log import ElectionLog
from quorumd.node.readiness import NodeStatus, SilentPeer
from tests.support.text import shows

FOLLOWS = NodeStatus(1, "follower", 5, 2, 100.0, 2500.0, 42, 42, 10, True, True)
SEARCHES = replace(
    FOLLOWS, role="prospective", leader_id=-1, contact_ms=inf, silent_peers=(SilentPeer(2, 1.0, "gone"),)
)


def test_unsuccessful_campaigns_are_summarized_at_growing_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    log = ElectionLog()
    log.changed("follower", 5, 2, 0.0)
    now = 1000.0
    for second in range(40):
        now = 1000.0 + 1000.0 * second
        log.changed("prospective", 5, -1, now)
        log.changed("follower", 5, 2, now + 500.0)
        log.check(replace(SEARCHES, leader_id=2), now + 900.0)
    log.check(FOLLOWS, now + 1900.0)
    log.changed("leader", 6, 1, now + 5000.0)
    expected = [
        ("follower", "epoch 5", "leader 2"),
        ("prospective", "epoch 5"),
        ("no leader", "5.9 s", "prospective", "epoch 5", " 6 campaigns", "node 2"),
        ("no leader", "16 s", "prospective", "epoch 5", "16 campaigns", "node 2"),
        ("no leader", "36 s", "prospective", "epoch 5", "36 campaigns", "node 2"),
        ("follower", "epoch 5", "leader 2", "41 s"),
        ("leader", "epoch 6", "leader 1"),
    ]
    for record, facts in zip(caplog.records, expected, strict=True):
        assert shows(record.getMessage(), *facts), record


def test_each_leader_of_an_epoch_is_counted_once() -> None:
    log = ElectionLog()
    for role, epoch, leader in (
        ("follower", 5, 2),
        ("follower", 5, 2),
        ("prospective", 5, -1),
        ("follower", 5, 2),
        ("candidate", 6, -1),
        ("leader", 6, 1),
        ("follower", 7, 2),
    ):
        log.changed(role, epoch, leader, 0.0)
    assert log.leaders == 3
