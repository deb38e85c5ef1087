"""Stock requests for voter changes (KIP-853), encoded by kio, and their effect as kafka-python sees it."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.add_raft_voter.v1 import request as add_raft_voter
from kio.schema.describe_cluster.v1 import request as describe_cluster
from kio.schema.errors import ErrorCode
from kio.schema.remove_raft_voter.v0 import request as remove_raft_voter
from kio.static.primitive import i32, u16

from tests.support.processes.daemons import Cluster, Daemon, wait_for
from tests.support.processes.fixtures import running_cluster
from tests.support.processes.kafka_python import describe_by_kafka_python
from tests.support.processes.ports import free_port
from tests.support.processes.requests import get_registers, set_register
from tests.support.processes.wire import Wire

NEWCOMER = 9
RETRIED = (ErrorCode.request_timed_out, ErrorCode.not_leader_or_follower, ErrorCode.not_controller)
ANOTHER_DISK = uuid.UUID(int=77)


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start three voters and an observer."""
    directory = tmp_path_factory.mktemp("voters")
    with running_cluster(directory) as started:
        extra = f"bootstrap.servers={started.bootstrap}\n"
        newcomer = Daemon(directory / "newcomer", NEWCOMER, free_port(), {}, extra)
        newcomer.start()
        started.daemons[NEWCOMER] = newcomer
        try:
            wait_for("the newcomer to fetch", lambda: NEWCOMER in started.leader_quorum().observers)
            yield started
        finally:
            newcomer.stop()


def directory_of(daemon: Daemon) -> uuid.UUID:
    (line,) = [
        line
        for line in (daemon.data / "meta.properties").read_text().splitlines()
        if line.startswith("directory.id=")
    ]
    return uuid.UUID(bytes=urlsafe_b64decode(line.removeprefix("directory.id=") + "=="))


def add(wire: Wire, daemon: Daemon, **fields: Any) -> Any:
    listener = add_raft_voter.Listener(name="CONTROLLER", host="127.0.0.1", port=u16(daemon.port))
    values: dict[str, Any] = {
        "cluster_id": None,
        "timeout": timedelta(seconds=60),
        "voter_id": i32(daemon.node_id),
        "voter_directory_id": directory_of(daemon),
        "listeners": (listener,),
    }
    return wire.request(add_raft_voter.AddRaftVoterRequest(**(values | fields)))


def remove(wire: Wire, daemon: Daemon, directory_id: uuid.UUID | None = None) -> Any:
    return wire.request(
        remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=None,
            voter_id=i32(daemon.node_id),
            voter_directory_id=directory_id or directory_of(daemon),
        )
    )


def until_done(send: Any) -> None:
    """Repeat a request while its error is retriable, as stock clients do."""

    def done() -> bool:
        response = send()
        assert response.error_code in (ErrorCode.none, *RETRIED), response
        return bool(response.error_code is ErrorCode.none)

    wait_for("the change of voters", done)


def described_voters(quorum: Cluster) -> tuple[int, set[int], set[int]]:
    """Return the leader, voters and observers that kafka-python reads from any node."""
    return describe_by_kafka_python(quorum.bootstrap)


@pytest.mark.parametrize("queried", ["leader", "follower"])
def test_voter_is_added_and_removed(quorum: Cluster, queried: str) -> None:
    leader = quorum.leader()
    newcomer = quorum[NEWCOMER]
    voters = set(quorum.daemons) - {NEWCOMER}
    other = next(daemon for daemon in quorum.others(leader) if daemon is not newcomer)
    with (leader if queried == "leader" else other).connect() as wire:
        until_done(lambda: add(wire, newcomer))
        assert described_voters(quorum) == (leader.node_id, voters | {NEWCOMER}, set())

        again = add(wire, newcomer)
        assert again.error_code is ErrorCode.duplicate_voter
        assert again.error_message
        assert remove(wire, newcomer, ANOTHER_DISK).error_code is ErrorCode.voter_not_found

        until_done(lambda: remove(wire, newcomer))
        described_leader, voters_now, observers = described_voters(quorum)
        assert (described_leader, voters_now) == (leader.node_id, voters)
        assert observers <= {NEWCOMER}
        assert remove(wire, newcomer).error_code is ErrorCode.voter_not_found


def test_unreachable_replica_or_one_that_has_not_fetched_gets_no_vote(quorum: Cluster) -> None:
    newcomer = quorum[NEWCOMER]
    with quorum.leader().connect() as wire:
        nowhere = add_raft_voter.Listener(name="CONTROLLER", host="127.0.0.1", port=u16(free_port()))
        unreachable = add(wire, newcomer, listeners=(nowhere,))
        assert unreachable.error_code is ErrorCode.request_timed_out
        assert "cannot be reached" in unreachable.error_message
        stranger = add(wire, newcomer, voter_directory_id=ANOTHER_DISK, timeout=timedelta(seconds=1))
        assert stranger.error_code is ErrorCode.request_timed_out
        assert stranger.error_message
    assert NEWCOMER not in described_voters(quorum)[1]


def test_other_cluster_id_is_rejected(quorum: Cluster) -> None:
    with quorum.leader().connect() as wire:
        response = add(wire, quorum[NEWCOMER], cluster_id="x" * 22)
    assert response.error_code is ErrorCode.inconsistent_cluster_id


def test_client_that_finds_the_controller_itself_gets_not_controller(quorum: Cluster) -> None:
    follower = quorum.others(quorum.leader())[0]
    with follower.connect() as wire:
        wire.request(
            describe_cluster.DescribeClusterRequest(
                include_cluster_authorized_operations=False, endpoint_type=2
            )
        )
        assert add(wire, quorum[NEWCOMER]).error_code is ErrorCode.not_leader_or_follower
        assert remove(wire, follower).error_code is ErrorCode.not_leader_or_follower


def test_leader_is_removed_and_added_again(quorum: Cluster) -> None:
    leader = quorum.leader()
    voters = set(quorum.daemons) - {NEWCOMER}
    with leader.connect() as wire:
        set_register(wire, "kept", "before")
        until_done(lambda: remove(wire, leader))
    successor = quorum.leader(besides=leader.node_id)
    described_leader, voters_now, _ = described_voters(quorum)
    assert (described_leader, voters_now) == (successor.node_id, voters - {leader.node_id})
    with successor.connect() as wire:
        assert get_registers(wire, "kept") == {"kept": "before"}
        until_done(lambda: add(wire, leader))
    assert described_voters(quorum)[:2] == (successor.node_id, voters)
