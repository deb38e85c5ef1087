"""Partition states step by step: cases run on shipped Kafka, and on a model of the description.

A case has the outcomes of both where they differ. quorumd follows the description (DOC) except for DEPARTURES;
DIFFERENCES lists every case where shipped Kafka (R38) behaves otherwise, with the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.controller.partition_change import Election
from quorumd.ids import KafkaUuid
from tests.support.controller.partition_harness import PartitionHarness

CASES = [
    json.loads(line)
    for file in ("partition_changes.jsonl", "partition_changes_of_configs_and_shutdowns.jsonl")
    for line in (Path(__file__).parent / "data" / file).read_text().splitlines()
]
NOT_THE_TOPIC = KafkaUuid(b"another topic's.")


def name_of(case: dict[str, Any]) -> str:
    config = case["config"]
    features = "".join(
        text for text, on in (("-elr", config["elr"]), ("-unclean", config["uncleanElection"])) if on
    )
    return f"{case['id']}-{case['rule']}{features}-{len(case['steps'])} steps"


def cluster_of(case: dict[str, Any]) -> PartitionHarness:
    config, init = case["config"], case["init"]
    cluster = PartitionHarness(config["brokers"], config["minIsr"], config["elr"], config["uncleanElection"])
    cluster.begin(
        Partition(
            tuple(init["replicas"]),
            tuple(init["isr"]),
            NO_LEADER if init["leader"] is None else init["leader"],
            init["leaderEpoch"],
            init["partitionEpoch"],
            tuple(init["adding"]),
            tuple(init["removing"]),
            (),
            tuple(init["elr"]),
            tuple(init["lastKnownElr"]),
            init["recovery"],
            tuple(KafkaUuid(bytes([replica + 1]) * 16) for replica in init["replicas"]),
        )
    )
    for broker_id in config["inactiveBrokers"]:
        cluster._set(broker_id, is_fenced=True)
    return cluster


def take(cluster: PartitionHarness, op: str) -> int:
    """Run one step; returns the error code of its response."""
    verb, *words = op.split()
    options = dict(word.split("=") for word in words if "=" in word)
    plain = [word for word in words if "=" not in word]
    numbers = [int(n) for word in plain for n in word.split(",") if n.lstrip("-").isdigit()]
    if verb == "reassign":
        return cluster.reassign(numbers)
    if verb == "cancel":
        return cluster.reassign(None)
    if verb == "ap":
        return cluster.alter(
            numbers,
            sender=int(options["sender"]) if "sender" in options else None,
            sender_epoch=int(options["be"]) if "be" in options else None,
            leader_epoch=int(options["le"]) if "le" in options else None,
            partition_epoch=int(options["pe"]) if "pe" in options else None,
            recovery=int(options.get("rec", 0)),
            wrong_epoch_of=int(options["badep"]) if "badep" in options else None,
            **({"topic_id": NOT_THE_TOPIC} if "badtopic" in options else {}),
        )
    if verb == "elect":
        cluster.elect(Election.PREFERRED if plain == ["preferred"] else Election.UNCLEAN)
    else:
        {
            "fence": cluster.fence,
            "unfence": cluster.unfence,
            "unclean-reg": cluster.restart_uncleanly,
            "shutdown": cluster.shut_down,
            "min": cluster.set_min_isr,
            "autounclean": lambda *_: cluster.elect(Election.UNCLEAN) if cluster.unclean else None,
        }[verb](*numbers)
    return 0


def state(cluster: PartitionHarness) -> dict[str, Any]:
    partition = cluster.partition
    return {
        "replicas": list(partition.replicas),
        "isr": sorted(partition.isr),
        "elr": sorted(partition.elr),
        "lastKnownElr": list(partition.last_known_elr),
        "leader": None if partition.leader == NO_LEADER else partition.leader,
        "leaderEpoch": partition.leader_epoch,
        "partitionEpoch": partition.partition_epoch,
        "adding": list(partition.adding),
        "removing": list(partition.removing),
        "recovery": partition.recovery,
    }


def expected(step: dict[str, Any]) -> dict[str, Any]:
    return step["expect"] | {key: sorted(step["expect"][key]) for key in ("isr", "elr")}


def first_difference(case: dict[str, Any]) -> tuple[int, str, dict[str, Any]] | None:
    """The first step with an unexpected outcome: its number, its text, {field: (ours, theirs)}."""
    cluster = cluster_of(case)
    for number, step in enumerate(case["steps"]):
        error = take(cluster, step["op"])
        ours = state(cluster) | {"error": error}
        theirs = expected(step) | {"error": step["error"]}
        if ours != theirs:
            return (
                number,
                step["op"],
                {key: (ours[key], theirs[key]) for key in theirs if ours[key] != theirs[key]},
            )
    return None


TARGET_BELOW_MIN_ISR = "a target smaller than min.insync.replicas could never be completed: it is refused"
DEPARTURES = {"V15": ((0, {"partitionEpoch", "removing", "error"}), TARGET_BELOW_MIN_ISR)}
"""Case of the description with another outcome -> (step, fields that differ), reason."""

ENOUGH_IN_SYNC = "Kafka waits until all that stay are in sync; the description until min.insync.replicas are"
EPOCH_OF_GROWTH = (
    "the description begins a new leader epoch when a reassignment is done, Kafka if one is dropped"
)
CANCEL_BELOW_MIN_ISR = "Kafka cancels even if fewer than min.insync.replicas of the originals are in sync"
ELR_OF_REPLICAS = "Kafka leaves removed replicas in the ELR, where nothing ever takes them out"
LAST_MEMBER = "with all of them dead Kafka says the first original is in sync, though it never was"
BACK_AGAIN = "the originals are kept, so going back to them leaves nothing to add or remove"
ELECTED_WHILE_FENCED = "Kafka before 4.1 elects the last known leader even while it is fenced (KAFKA-19522)"

DIFFERENCES = {
    "E2-R38-elr-4 steps": (2, ENOUGH_IN_SYNC),
    "V2-R38-elr-3 steps": (2, EPOCH_OF_GROWTH),
    "V7-R38-elr-4 steps": (3, CANCEL_BELOW_MIN_ISR),
    "V7u-R38-elr-unclean-4 steps": (3, ELR_OF_REPLICAS),
    "V7noELR-R38-4 steps": (3, CANCEL_BELOW_MIN_ISR),
    "V8w-R38-elr-unclean-1 steps": (0, LAST_MEMBER),
    "V10b-R38-elr-3 steps": (1, BACK_AGAIN),
    "V15-R38-elr-1 steps": (0, TARGET_BELOW_MIN_ISR),
    "V15noELR-R38-1 steps": (0, TARGET_BELOW_MIN_ISR),
    "V20-R38-elr-3 steps": (1, ENOUGH_IN_SYNC),
    "V24-R38-elr-3 steps": (2, EPOCH_OF_GROWTH),
    "LRS-R38-elr-8 steps of which the last is unfence 3": (5, ELECTED_WHILE_FENCED),
}
"""Case of shipped Kafka with another outcome in quorumd -> first step that differs, reason."""


def key_of(case: dict[str, Any]) -> str:
    """`name_of` with a suffix that makes it unique."""
    name = name_of(case)
    twice = sum(name_of(other) == name for other in CASES) > 1
    return f"{name} of which the last is {case['steps'][-1]['op']}" if twice else name


@pytest.mark.parametrize("case", [c for c in CASES if c["rule"] == "DOC"], ids=key_of)
def test_outcomes_equal_those_of_the_description(case: dict[str, Any]) -> None:
    found = first_difference(case)
    if case["id"] not in DEPARTURES:
        assert found is None
        return
    (step, fields), _ = DEPARTURES[case["id"]]
    assert found is not None
    assert (found[0], set(found[2])) == (step, fields)


@pytest.mark.parametrize("case", [c for c in CASES if c["rule"] == "R38"], ids=key_of)
def test_outcomes_equal_those_of_kafka_except_differences(case: dict[str, Any]) -> None:
    found = first_difference(case)
    expected_step, _ = DIFFERENCES.get(key_of(case), (None, ""))
    assert (found[0] if found is not None else None) == expected_step, found


def test_differences_name_existing_cases() -> None:
    assert set(DIFFERENCES) <= {key_of(case) for case in CASES if case["rule"] == "R38"}
    assert set(DEPARTURES) <= {case["id"] for case in CASES if case["rule"] == "DOC"}
