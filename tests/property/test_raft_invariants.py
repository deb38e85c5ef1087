"""Random crashes, restarts, cut links, held flushes, proposals and reads; Raft's invariants hold after every step.

`Quorum.check` asserts election safety, leader completeness and state machine safety; these tests add acknowledged
records, linearizable reads, and progress of a healed quorum.
"""

from __future__ import annotations

from random import Random

import pytest

from quorumd.raft.settings import RaftSettings
from tests.support.raft.quorum import Quorum


class RaftInvariants:
    def __init__(self, seed: int, voters: int, observers: int) -> None:
        self.random = Random(seed)
        settings = RaftSettings()
        self.quorum = Quorum(voters, observers, seed, settings)
        self.acknowledged = 0
        self.reads: dict[int, int] = {}
        self.confirmed_reads = 0
        self.quorum.start()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice(
                [self.crash, self.restart, self.cut, self.heal, self.hold_flushes, self.read]
            )()
            self.propose()
            self.quorum.run(self.random.choice([1, 3, 20, 300, 3000]))
            self.check()

    def crash(self) -> None:
        up = [n for n, node in self.quorum.nodes.items() if node.up]
        if up:
            self.quorum.crash(self.random.choice(up))

    def restart(self) -> None:
        for n, node in self.quorum.nodes.items():
            if not node.up and self.random.random() < 0.7:
                self.quorum.start(n)

    def cut(self) -> None:
        ids = list(self.quorum.nodes)
        self.quorum.cut(self.random.choice(ids), self.random.choice(ids), both=self.random.random() < 0.5)

    def heal(self) -> None:
        self.quorum.heal()

    def hold_flushes(self) -> None:
        for node in self.quorum.nodes.values():
            node.flushes = self.random.random() < 0.8
            if node.up and node.flushes:
                self.quorum.flush(node)

    def propose(self) -> None:
        for n, node in self.quorum.nodes.items():
            if node.up and node.engine.is_leader:
                for _ in range(self.random.randrange(3)):
                    self.quorum.propose(n, bytes([n]), 1 + self.random.randrange(3))

    def read(self) -> None:
        for n, node in self.quorum.nodes.items():
            if node.up and node.engine.is_leader:
                token = len(self.reads)
                self.reads[token] = self.acknowledged = max(self.acknowledged, self.committed())
                self.quorum.read(n, token)

    def committed(self) -> int:
        return max(node.committed for node in self.quorum.nodes.values())

    def check(self) -> None:
        self.acknowledged = max(self.acknowledged, self.committed())
        for node in self.quorum.nodes.values():
            for token, offset in node.ready.items():
                assert offset >= self.reads[token], f"stale read: {offset} below {self.reads[token]}"
            self.confirmed_reads += len(node.ready)
            node.ready.clear()

    def restart_all(self) -> None:
        self.quorum.heal()
        for n, node in self.quorum.nodes.items():
            node.flushes = True
            if not node.up:
                self.quorum.start(n)
            self.quorum.flush(node)

    def stabilize(self) -> None:
        quorum = self.quorum
        self.restart_all()
        quorum.run(10_000)  # elections that began before may still depose a leader
        leader = quorum.run_to_leader()
        quorum.read(leader, "last")
        end = quorum.propose(leader)
        assert end > self.acknowledged
        quorum.run_to_commit(end)
        assert quorum.nodes[leader].ready["last"] >= self.acknowledged
        logs = [node.log.batches[: len(quorum.agreed)] for node in quorum.nodes.values()]
        assert all(log == quorum.agreed for log in logs), "log matching"


@pytest.mark.parametrize(("voters", "observers"), [(1, 1), (2, 0), (3, 1), (5, 0)])
@pytest.mark.parametrize("seed", range(6))
def test_invariants_hold_under_random_faults(voters: int, observers: int, seed: int) -> None:
    chaos = RaftInvariants(seed, voters, observers)
    chaos.run(60)
    chaos.stabilize()
