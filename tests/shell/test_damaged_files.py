"""Damaged files: damage that is repaired and logged, and damage that stops the node."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.log.log_files import batches, bytes_below
from tests.support.processes.daemons import QUICK, Cluster, Daemon, run_quorumd, wait_for
from tests.support.processes.ports import free_port
from tests.support.processes.requests import Refused, set_register

UNUSABLE = 3
# A leader must soon detect that it has lost its majority.
PROPERTIES = QUICK


def _write(cluster: Cluster, count: int) -> None:
    for number in range(count):
        cluster.at_leader(lambda wire, number=number: set_register(wire, "damaged", str(number)))


def _newest_segment(daemon: Daemon) -> Path:
    return max(daemon.partition_directory.glob("*.log"))


def _cut_inside_last_batch(segment: Path) -> None:
    last = batches(segment)[-1]
    with segment.open("r+b") as file:
        file.truncate(last.position + len(last.data) // 2)


def _flip_a_byte_of_last_batch(segment: Path) -> None:
    last = batches(segment)[-1]
    with segment.open("r+b") as file:
        file.seek(last.position + len(last.data) - 1)
        file.write(bytes([last.data[-1] ^ 0xFF]))


def _append_garbage(segment: Path) -> None:
    last = batches(segment)[-1]
    with segment.open("r+b") as file:
        file.seek(last.position + len(last.data))
        file.write(b"\x5a" * 97)


@pytest.mark.parametrize("damage", [_cut_inside_last_batch, _flip_a_byte_of_last_batch, _append_garbage])
def test_torn_tail_of_a_killed_voter_is_truncated_logged_and_fetched_again(
    cluster: Cluster, damage: Callable[[Path], None]
) -> None:
    follower = cluster.others(cluster.leader())[0]
    _write(cluster, 20)
    follower.kill()
    damage(_newest_segment(follower))
    length_before = len(follower.log_text())

    follower.start()
    _write(cluster, 5)
    high_watermark = cluster.wait_until_level()
    assert len({bytes_below(daemon.partition_directory, high_watermark) for daemon in cluster}) == 1
    new_lines = follower.log_text()[length_before:]
    assert _newest_segment(follower).name in new_lines, new_lines
    assert any(word in new_lines for word in ("cut", "truncated")), new_lines


def test_damage_below_the_known_high_watermark_stops_the_node(own_cluster: Cluster) -> None:
    """After a clean stop the high watermark is known: damage below it is not a torn tail."""
    cluster = own_cluster
    follower = cluster.others(cluster.leader())[0]
    _write(cluster, 20)
    cluster.wait_until_level()
    follower.stop()
    segment = _newest_segment(follower)
    middle = batches(segment)[5]
    data = bytearray(segment.read_bytes())
    data[middle.position + len(middle.data) - 2] ^= 0xFF
    segment.write_bytes(data)

    follower.start()
    assert follower.wait() == UNUSABLE
    assert segment.name in follower.log_text()
    assert segment.read_bytes() == data, "a damaged log must not be touched"


def test_node_does_not_start_with_a_corrupt_quorum_state(cluster: Cluster) -> None:
    """It may hold a vote; a node that forgets its vote can help to elect a second leader."""
    follower = cluster.others(cluster.leader())[0]
    follower.stop()
    file = follower.partition_directory / "quorum-state"
    text = file.read_text()
    for damaged in (text[: len(text) // 2], "", "{}", text.replace("{", "[", 1)):
        file.write_text(damaged)
        follower.start()
        assert follower.wait() == UNUSABLE, damaged
        assert "quorum-state" in follower.log_text()
        assert file.read_text() == damaged
    file.write_text(text)
    follower.start()
    cluster.wait_until_level()


def test_directory_of_another_node_is_refused(single: Cluster) -> None:
    daemon = single[1]
    daemon.stop()
    daemon.config.write_text(daemon.config.read_text().replace("node.id=1", "node.id=2"))
    result = run_quorumd("start", "--config", daemon.config)
    assert result.returncode == UNUSABLE
    assert f"{daemon.data} belongs to node 1" in result.stderr
    assert "node 2" in result.stderr


def test_directory_in_use_is_refused(single: Cluster) -> None:
    daemon = single[1]
    twin = Daemon(daemon.config.with_name("twin"), 1, free_port(), {1: free_port()})
    twin.config.write_text(twin.config.read_text().replace(str(twin.data), str(daemon.data)))
    result = run_quorumd("start", "--config", twin.config)
    assert result.returncode == UNUSABLE
    assert str(daemon.data) in result.stderr
    assert daemon.await_quorum().leader == 1


def test_unformatted_directory_is_refused_with_the_format_command(single: Cluster) -> None:
    daemon = single[1]
    daemon.stop()
    shutil.rmtree(daemon.data)
    result = run_quorumd("start", "--config", daemon.config)
    assert result.returncode == UNUSABLE
    assert "quorumd format" in result.stderr


def test_emptied_directory_of_a_voter_is_another_replica_without_a_vote(own_cluster: Cluster) -> None:
    """The disk had acknowledged records: with a new directory id the node is an observer (KIP-853)."""
    cluster = own_cluster
    _write(cluster, 10)
    leader = cluster.leader()
    emptied, other = cluster.others(leader)
    cluster_id = cluster.cluster_id()
    emptied.kill()
    shutil.rmtree(emptied.data)
    emptied.format("--cluster-id", cluster_id)
    emptied.start()
    _write(cluster, 5)

    def has_all() -> bool:
        quorum = cluster.leader_quorum()
        return quorum.observers.get(emptied.node_id) == quorum.high_watermark

    wait_for("the emptied node to catch up", has_all)
    high_watermark = cluster.leader_quorum().high_watermark
    assert len({bytes_below(daemon.partition_directory, high_watermark) for daemon in cluster}) == 1

    other.kill()
    with leader.connect() as wire, pytest.raises((Refused, OSError)):
        set_register(wire, "damaged", "by a minority of the voters")
