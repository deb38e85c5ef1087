"""Random members of both protocols in one group never share a partition, and end with every partition assigned once,
however the group migrates."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.broker.coordinator.consumer_group import LEAVING
from quorumd.broker.settings.coordinator_settings import GroupSettings, MigrationPolicy
from tests.support.broker.classic_members import Groups
from tests.support.broker.consumer_members import ConsumerClient
from tests.support.broker.coordinator_shards import FixedTopics, group_shard, topic_id
from tests.support.broker.embedded_consumers import EmbeddedConsumer

SEEDS = 60
STEPS = 150
SETTLE_STEPS = 80
MEMBERS = 6
Client = ConsumerClient | EmbeddedConsumer


class Members:
    """The members of a group on a coordinator that may fail over, and whose log may stop replicating."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.topics = FixedTopics(a=self.random.randrange(1, 9), b=self.random.randrange(1, 5))
        policy = self.random.choice((MigrationPolicy.UPGRADE, *[MigrationPolicy.BIDIRECTIONAL] * 3))
        self.groups: Groups = group_shard(
            GroupSettings(initial_rebalance_delay_ms=0, consumer_migration_policy=policy), self.topics
        )
        self.is_cooperative = self.random.random() < 0.5
        self.alive: list[Client] = []
        self.fenced: set[Client] = set()
        """Members that were removed, and have not had an assignment since: their clients may not know yet."""
        self.migrations = 0
        self.kind = ""

    def join(self, step: int) -> None:
        """Add a member of either protocol; a static one may replace a member of the other protocol."""
        instance_id = self.random.choice((None, None, "i", "j"))
        holders = [each for each in self.alive if instance_id and each.instance_id == instance_id]
        subscribed = self.random.choice((("a",), ("b",), ("a", "b")))
        member: Client
        if self.random.random() < 0.5:
            if any(isinstance(each, ConsumerClient) for each in holders):
                return
            member = ConsumerClient(self.groups, f"m{step}", *subscribed, instance_id=instance_id)
        else:
            member = EmbeddedConsumer(
                self.groups,
                self.topics,
                *subscribed,
                instance_id=instance_id,
                is_cooperative=self.is_cooperative,
                needs_member_id=self.random.random() < 0.8,
            )
        for each in holders:
            self.alive.remove(each)
        self.alive.append(member)

    def leave(self) -> None:
        """Remove a member, with or without a request to leave."""
        member = self.random.choice(self.alive)
        self.alive.remove(member)
        if member.is_waiting or self.random.random() < 0.4:
            return
        if isinstance(member, ConsumerClient):
            member.beat(epoch=LEAVING)
        elif member.member_id and self.groups.log.is_replicating:
            member.leave()

    def disturb(self, step: int) -> None:
        """Change members, topics, time or the coordinator."""
        action = self.random.randrange(16)
        if action < 2 and len(self.alive) < MEMBERS:
            self.join(step)
        elif action == 2 and self.alive:
            self.leave()
        elif action == 3:
            self.topics.counts["a"] += 1
            self.topics.offset += 1
        elif action == 4 and self.groups.log.is_replicating:
            self.groups.fail_over()
        elif action == 5:
            self.groups.log.is_replicating = False
        elif action in (6, 7):
            self.groups.replicate()
        elif action == 8:
            self.groups.pass_ms(self.random.randrange(8_000))
        self.check()

    def step(self, share: float) -> None:
        """Let some of the members make their next request."""
        for member in list(self.alive):
            if self.random.random() >= share:
                continue
            if isinstance(member, EmbeddedConsumer):
                member.step()
            elif not member.is_waiting:
                member.beat()
            self.check()

    def check(self) -> None:
        """No two members of a consumer group own one partition; a group is of one kind."""
        machine = self.groups.machine
        assert "g" not in machine.classic or "g" not in machine.consumers.groups
        kind = "consumer" if "g" in machine.consumers.groups else "classic"
        self.migrations += kind != self.kind
        self.kind = kind
        group = machine.consumers.groups.get("g")
        known = group.members if group is not None else {}
        for member in self.alive:
            if member.member_id not in known:
                self.fenced.add(member)
            elif isinstance(member, ConsumerClient) or member.phase == "beat":
                self.fenced.discard(member)
        owned = [each for member in self.alive if member not in self.fenced for each in member.owned]
        assert len(owned) == len(set(owned))

    def settle(self) -> None:
        """Let the members run undisturbed, then check that every partition has one owner."""
        self.groups.replicate()
        for _ in range(SETTLE_STEPS):
            self.step(1.0)
            self.groups.pass_ms(1_000)
        wanted = sorted(
            (topic_id(name), number)
            for name in {topic for member in self.alive for topic in _subscribed(member)}
            for number in range(self.topics.counts[name])
        )
        assert sorted(each for member in self.alive for each in member.owned) == wanted


def _subscribed(member: Client) -> tuple[str, ...]:
    return member.topics if isinstance(member, ConsumerClient) else member.subscribed


def test_every_partition_has_one_owner_whatever_the_protocol() -> None:
    migrations = sum(_run(seed) for seed in range(SEEDS))
    assert migrations > 2 * SEEDS


def _run(seed: int) -> int:
    members = Members(seed)
    try:
        for step in range(STEPS):
            members.disturb(step)
            members.step(0.5)
        members.settle()
    except AssertionError as failed:
        pytest.fail(f"seed {seed}: {failed}")
    return members.migrations
