"""Random members of one consumer group never share a partition, and end with every partition assigned once."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.broker.coordinator.consumer_group import EMPTY_ASSIGNMENT, LEAVING
from tests.support.broker.classic_members import Groups
from tests.support.broker.consumer_members import ConsumerClient
from tests.support.broker.coordinator_shards import FixedTopics, group_shard, topic_id

SEEDS = 80
STEPS = 120


def check(alive: list[ConsumerClient], groups: Groups) -> None:
    """No two members that the coordinator knows own one partition."""
    group = groups.machine.consumers.groups.get("g")
    members = group.members if group is not None else {}
    owned = [each for client in alive if client.member_id in members for each in client.owned]
    assert len(owned) == len(set(owned))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_partition_has_one_owner(seed: int) -> None:
    random = Random(seed)
    topics = FixedTopics(a=random.randrange(1, 9), b=random.randrange(1, 5))
    groups = group_shard(topics=topics)
    alive: list[ConsumerClient] = []
    for step in range(STEPS):
        action = random.randrange(20)
        if action == 0 and len(alive) < 6:
            chosen = random.choice((("a",), ("b",), ("a", "b")))
            assignor = random.choice(("uniform", "range", None))
            alive.append(ConsumerClient(groups, f"m{step}", *chosen, assignor=assignor))
        elif action == 1 and alive:
            alive.remove(random.choice(alive))
        elif action == 2 and alive:
            client = random.choice(alive)
            alive.remove(client)
            if not client.is_waiting:
                client.beat(epoch=LEAVING)
        elif action == 3:
            topics.counts["a"] += 1
            topics.offset += 1
        elif action == 4 and groups.log.is_replicating:
            groups.fail_over()
        elif action == 5:
            groups.log.is_replicating = False
        elif action == 6:
            groups.replicate()
        elif action == 7:
            groups.pass_ms(random.randrange(20_000))
        elif action == 8 and alive:
            random.choice(alive).topics = random.choice((("a",), ("b",), ("a", "b")))
        for client in alive:
            if not client.is_waiting and random.random() < 0.5:
                client.beat()
        check(alive, groups)
    settle(groups, alive, topics)


def settle(groups: Groups, alive: list[ConsumerClient], topics: FixedTopics) -> None:
    """Let the members run undisturbed."""
    groups.replicate()
    for _ in range(40):
        for client in alive:
            client.beat()
        check(alive, groups)
        groups.pass_ms(3_000)
    subscribed = {topic for client in alive for topic in client.topics}
    wanted = {(topic_id(name), number) for name in subscribed for number in range(topics.counts[name])}
    assert frozenset().union(*(client.owned for client in alive), EMPTY_ASSIGNMENT) == wanted
    if alive:
        assert groups.machine.consumers.groups["g"].state == "Stable"
