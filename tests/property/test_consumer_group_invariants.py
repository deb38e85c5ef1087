"""Random members of one consumer group never share a partition, and end with every partition assigned once."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.broker.coordinator.consumer_group import EMPTY_ASSIGNMENT, LEAVING
from quorumd.simulator.environment.topic_regexes import compile_regex
from tests.support.broker.classic_members import Groups
from tests.support.broker.consumer_members import ConsumerClient
from tests.support.broker.coordinator_shards import Evaluations, FixedTopics, group_shard, topic_id

SEEDS = 80
STEPS = 120
REGEXES = ("[ab]", "[bc]", "c|d", "x")


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
    evaluations = Evaluations(topics)
    groups = group_shard(topics=topics, evaluations=evaluations)
    alive: list[ConsumerClient] = []
    for step in range(STEPS):
        action = random.randrange(20)
        if action == 0 and len(alive) < 6:
            chosen = random.choice((("a",), ("b",), ("a", "b")))
            assignor = random.choice(("uniform", "range", None))
            regex = random.choice((None, None, *REGEXES))
            alive.append(ConsumerClient(groups, f"m{step}", *chosen, assignor=assignor, regex=regex))
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
        elif action == 9 and alive:
            random.choice(alive).regex = random.choice(("", *REGEXES))
        elif action == 10:
            evaluations.run(groups)
        elif action == 11 and "c" not in topics.counts:
            topics.create("c", random.randrange(1, 4))
        elif action == 11:
            topics.delete("c")
        for client in alive:
            if not client.is_waiting and random.random() < 0.5:
                client.beat()
        check(alive, groups)
    settle(groups, alive, topics, evaluations)


def settle(
    groups: Groups, alive: list[ConsumerClient], topics: FixedTopics, evaluations: Evaluations
) -> None:
    """Let the members run undisturbed."""
    groups.replicate()
    for _ in range(40):
        for client in alive:
            client.beat()
        check(alive, groups)
        evaluations.run(groups)
        groups.pass_ms(3_000)
    subscribed = {topic for client in alive for topic in client.topics}
    patterns = [client.regex for client in alive if client.regex]
    subscribed |= {
        topic for topic in topics.counts for each in patterns if compile_regex(each).matches(topic)
    }
    wanted = {(topic_id(name), number) for name in subscribed for number in range(topics.counts[name])}
    assert frozenset().union(*(client.owned for client in alive), EMPTY_ASSIGNMENT) == wanted
    if alive:
        assert groups.machine.consumers.groups["g"].state == "Stable"
