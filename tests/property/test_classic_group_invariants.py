"""Random members of one classic group end in one generation, with each partition assigned once, whatever happens."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.broker.coordinator.classic_group import GroupState
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode
from tests.support.broker.classic_members import ClassicClient, Groups
from tests.support.broker.coordinator_shards import group_shard

PARTITIONS = 12
STEP_MS = 1_000
SETTLE_STEPS = 200


class Consumer(ClassicClient):
    """A member that behaves as a consumer does: it joins and syncs until it has an assignment."""

    def __init__(self, groups: Groups, instance_id: str | None) -> None:
        super().__init__(groups, instance_id=instance_id, needs_member_id=True)
        self.phase = "joining"
        self.is_waiting = False
        self.partitions: frozenset[int] = frozenset()

    def step(self) -> None:
        """Make one request, unless one is waiting."""
        if self.phase == "joining":
            self._step_join()
        elif self.phase == "syncing":
            self._step_sync()
        elif self.heartbeat() is not ErrorCode.NONE:
            self._begin(self.heartbeat())

    def _begin(self, error: ErrorCode) -> None:
        self.phase, self.is_waiting, self.partitions = "joining", False, frozenset()
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""

    def _step_join(self) -> None:
        if not self.is_waiting:
            self.is_waiting = True
            self.join()
        if self.joined is None:
            return
        self.is_waiting = False
        if self.joined.error is ErrorCode.NONE:
            self.phase = "syncing"
        elif self.joined.error is not ErrorCode.MEMBER_ID_REQUIRED:
            self._begin(self.joined.error)

    def _step_sync(self) -> None:
        if not self.is_waiting:
            self.is_waiting = True
            self.sync(self._assignments())
        if self.synced is None:
            return
        self.is_waiting = False
        if self.synced.error is ErrorCode.NONE:
            self.phase = "stable"
            self.partitions = frozenset(self.synced.assignment)
        else:
            self._begin(self.synced.error)

    def _assignments(self) -> dict[str, bytes]:
        if self.joined is None or not self.leads or self.joined.skip_assignment:
            return {}
        members = sorted(member[0] for member in self.joined.members)
        return {member: bytes(range(index, PARTITIONS, len(members))) for index, member in enumerate(members)}


def check_generation(groups: Groups, consumers: list[Consumer]) -> None:
    """Members that own partitions in the current generation own different ones."""
    group = groups.machine.classic.get("g")
    if group is None or group.state is not GroupState.STABLE:
        return
    owned: list[int] = []
    for consumer in consumers:
        is_member = consumer.member_id in group.members and consumer.generation == group.generation
        if is_member and consumer.phase == "stable":
            owned += consumer.partitions
    assert len(owned) == len(set(owned)), f"a partition has two owners in generation {group.generation}"


SEEDS = 80
ACTIONS = (
    *("start", "start static", "crash", "leave", "step", "step all", "pass"),
    *("run", "run", "run", "fail over", "cut", "heal"),
)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_members_end_in_one_generation_with_each_partition_assigned_once(seed: int) -> None:
    random = Random(seed)
    actions = [(random.choice(ACTIONS), random.randrange(8)) for _ in range(random.randrange(60))]
    groups = group_shard(GroupSettings(initial_rebalance_delay_ms=500))
    alive: list[Consumer] = []
    for action, number in actions:
        if action.startswith("start") and len(alive) < 6:
            alive.append(Consumer(groups, f"i{number}" if action == "start static" else None))
        elif action in ("crash", "leave", "step") and alive:
            consumer = alive[number % len(alive)]
            if action == "step":
                consumer.step()
            else:
                alive.remove(consumer)
                if action == "leave" and consumer.member_id:
                    consumer.leave()
        elif action == "step all":
            for consumer in alive:
                consumer.step()
        elif action == "pass":
            groups.pass_ms(STEP_MS * (number + 1))
        elif action == "run":
            run(groups, alive, 3 * number)
        elif action == "fail over" and groups.log.is_replicating:
            groups.fail_over()
        elif action == "cut":
            groups.log.is_replicating = False
        elif action == "heal":
            groups.replicate()
        check_generation(groups, alive)
    settle(groups, alive)


def run(groups: Groups, alive: list[Consumer], steps: int) -> None:
    """Let every member make requests, once a second."""
    for _ in range(steps):
        for consumer in alive:
            consumer.step()
        groups.pass_ms(STEP_MS)
        check_generation(groups, alive)


def settle(groups: Groups, alive: list[Consumer]) -> None:
    """Let the members run undisturbed; two with one instance id fence each other, so the later one stays."""
    groups.replicate()
    last = {consumer.instance_id or id(consumer): consumer for consumer in alive}
    alive[:] = list(last.values())
    for _ in range(SETTLE_STEPS):
        run(groups, alive, 1)
    group = groups.machine.classic.get("g")
    if not alive:
        assert group is None or group.state is GroupState.EMPTY
        return
    assert group is not None
    assert group.state is GroupState.STABLE
    assert set(group.members) == {consumer.member_id for consumer in alive}
    assert {consumer.generation for consumer in alive} == {group.generation}
    assert sorted(number for consumer in alive for number in consumer.partitions) == list(range(PARTITIONS))
