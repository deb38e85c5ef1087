from __future__ import annotations

from math import inf

from quorumd.ids import ReplicaKey
from quorumd.raft.description import QuorumDescription, ReplicaDescription
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.voters import Voter, VoterSet
from tests.support.raft.quorum import key
from tests.support.raft.single_engine import EngineHarness


def test_leader_describes_every_replica() -> None:
    bench = EngineHarness().to_leader()
    bench.now += 40
    bench.deliver(bench.fetch_of(2, offset=1, replica=key(9)))
    bench.now += 60
    assert bench.engine.describe(bench.now) == QuorumDescription(
        1,
        2,
        2,
        (
            ReplicaDescription(key(1), 2, 0, 0),
            ReplicaDescription(key(2), 2, 100, 100),
            ReplicaDescription(key(3), -1, inf, inf),
        ),
        (ReplicaDescription(key(9), 1, 60, inf),),
    )


def test_non_leaders_describe_only_themselves() -> None:
    bench = EngineHarness((1,), QuorumState(1, 2))
    description = bench.engine.describe(bench.now)
    assert (description.leader_id, description.epoch, description.high_watermark) == (2, 1, -1)
    assert [(voter.key.id, voter.log_end_offset) for voter in description.voters] == [
        (1, 1),
        (2, -1),
        (3, -1),
    ]
    assert EngineHarness((1,), me=key(9)).engine.describe(0.0).voters[0].log_end_offset == -1


def test_voter_without_recorded_directory_shows_its_fetching_one() -> None:
    unpinned = VoterSet(tuple(Voter(ReplicaKey(n), ()) for n in (1, 2, 3)))
    bench = EngineHarness(voters=unpinned).to_leader(committed=False)
    bench.deliver(bench.fetch_of(2))
    assert bench.engine.describe(bench.now).voters[1].key == key(2)


def test_silent_observers_are_dropped() -> None:
    bench = EngineHarness().to_leader()
    bench.deliver(bench.fetch_of(2, replica=key(9)))
    bench.now += bench.settings.observer_session_ms + 1
    assert bench.engine.describe(bench.now).observers == ()
