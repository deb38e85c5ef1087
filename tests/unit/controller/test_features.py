from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.broker import BrokerFeature
from quorumd.controller.cluster_image import (
    ALL_BROKERS,
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
)
from quorumd.controller.controller_registration import plan_unregister_controller
from quorumd.controller.features import MAX_UPDATES, plan_update_features
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.codec import encode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.register_controller_record import ControllerFeature, RegisterControllerRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from quorumd.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.controller.partition_harness import TOPIC_ID, PartitionHarness
from tests.support.text import shows

INCARNATION = KafkaUuid(b"some incarnation")
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def cluster(metadata_version: int = 25, *, elr: bool = True) -> PartitionHarness:
    """A cluster with a broker that supports more than the controllers, and a fenced one."""
    harness = PartitionHarness([1, 2, 3], elr=elr)
    harness.apply(FeatureLevelRecord(METADATA_VERSION, metadata_version))
    for broker_id in (1, 2, 3):
        features = (BrokerFeature(METADATA_VERSION, 7, 34), BrokerFeature(ELR_VERSION, 0, 1))
        harness._set(broker_id, features=features)
    harness._set(2, is_fenced=True)
    return harness


def update(
    harness: PartitionHarness,
    *updates: tuple[str, int, int],
    validate_only: bool = False,
    version: int = 2,
) -> Any:
    """Update (feature, level, upgrade type) each; returns the response and applies the plan."""
    requested = [FeatureUpdateKey(name, level, False, kind) for name, level, kind in updates]
    request = UpdateFeaturesRequest(60_000, requested, validate_only)
    plan = plan_update_features(harness.controller, request, version)
    harness.apply(*plan.records)
    reply: Any = plan.response
    assert (reply.error_message is None) == (reply.error_code == 0)
    return reply


def levels(harness: PartitionHarness) -> tuple[int | None, int | None]:
    features = harness.controller.image.features
    return features.get(METADATA_VERSION), features.get(ELR_VERSION)


def test_feature_updates_are_atomic() -> None:
    harness = cluster(22, elr=False)
    refused = update(harness, (METADATA_VERSION, 23, UPGRADE), (ELR_VERSION, 2, UPGRADE))
    assert (refused.error_code, levels(harness)) == (ErrorCode.INVALID_UPDATE_VERSION, (22, None))
    assert update(harness, (ELR_VERSION, 1, UPGRADE), (METADATA_VERSION, 25, UPGRADE)).error_code == 0
    assert levels(harness) == (25, 1)


def test_unchanged_values_write_no_record() -> None:
    harness = cluster()
    before = harness.next_offset
    assert update(harness, (METADATA_VERSION, 25, UPGRADE), (ELR_VERSION, 1, SAFE_DOWNGRADE)).error_code == 0
    assert harness.next_offset == before


@pytest.mark.parametrize("validate_only", [False, True])
def test_release_upgrade_ignores_kraft_version_and_disabled_features(validate_only: bool) -> None:
    """kafka-features upgrade --release-version also names kraft.version and features at level 0."""
    harness = cluster(23)
    requested = ((METADATA_VERSION, 25, UPGRADE), (KRAFT_VERSION, 1, UPGRADE), ("share.version", 0, UPGRADE))
    assert update(harness, *requested, validate_only=validate_only).error_code == 0
    assert levels(harness) == (23 if validate_only else 25, 1)


def test_every_invalid_feature_update_is_reported() -> None:
    harness = cluster(23)
    reply = update(
        harness, (METADATA_VERSION, 25, UPGRADE), ("share.version", 1, UPGRADE), (ELR_VERSION, 2, UPGRADE)
    )
    assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert shows(reply.error_message, "share.version", "Broker 1")
    assert shows(reply.error_message, ELR_VERSION, "active controller")
    assert levels(harness) == (23, 1), "all or none"


def test_validate_only_changes_nothing() -> None:
    harness = cluster(23)
    assert update(harness, (METADATA_VERSION, 25, UPGRADE), validate_only=True).error_code == 0
    assert update(harness, (METADATA_VERSION, 34, UPGRADE), validate_only=True).error_code != 0
    assert levels(harness) == (23, 1)


REFUSED = [
    ("an unknown feature", ("new.version", 1, UPGRADE), "do not support this feature"),
    ("what a broker lacks", ("group.version", 1, UPGRADE), "Broker 1 does not support this feature"),
    ("kraft.version", (KRAFT_VERSION, 0, UNSAFE_DOWNGRADE), "cannot be downgraded"),
    ("above what is supported", (METADATA_VERSION, 34, UPGRADE), "versions 21 to 33"),
    ("below what is supported", (METADATA_VERSION, 20, UNSAFE_DOWNGRADE), "versions 21 to 33"),
    ("a negative level", (ELR_VERSION, -1, SAFE_DOWNGRADE), "versions 0 to 1"),
    ("down as an upgrade", (METADATA_VERSION, 23, UPGRADE), "requires upgrade type safe downgrade"),
    ("up as a downgrade", (METADATA_VERSION, 25, SAFE_DOWNGRADE), "25 is not a downgrade"),
    ("no kind of change", (METADATA_VERSION, 25, 0), "upgrade type 0"),
    ("down beyond the ELR", (METADATA_VERSION, 22, SAFE_DOWNGRADE), "records that 22 does not know"),
    (
        "down beyond the ELR by force",
        (METADATA_VERSION, 22, UNSAFE_DOWNGRADE),
        "nor an unsafe downgrade is supported",
    ),
]


@pytest.mark.parametrize(
    ("requested", "text"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_invalid_update_is_rejected_with_its_cause(requested: tuple[str, int, int], text: str) -> None:
    harness = cluster(24)
    reply = update(harness, requested)
    assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert text in reply.error_message
    assert levels(harness) == (24, 1)


def test_duplicate_feature_is_rejected() -> None:
    reply = update(cluster(23), (METADATA_VERSION, 24, UPGRADE), (METADATA_VERSION, 25, UPGRADE))
    assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    ("current", "lowest"), [(22, 21), (25, 23), (29, 23), (30, 30), (31, 30), (32, 32), (33, 33)]
)
def test_metadata_version_downgrade_requires_unchanged_records(current: int, lowest: int) -> None:
    """As in Kafka: 4.0-IV1, 4.3-IV0, 4.4-IV1 and 4.4-IV2 changed records."""
    for level in range(21, current):
        for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            harness = cluster(current, elr=current >= 23)
            assert (update(harness, (METADATA_VERSION, level, kind)).error_code == 0) == (level >= lowest)
            assert levels(harness)[0] == (level if level >= lowest else current)


def test_level_unsupported_by_fenced_broker_is_rejected() -> None:
    harness = cluster(24)
    harness._set(2, features=(BrokerFeature(METADATA_VERSION, 7, 24), BrokerFeature(ELR_VERSION, 0, 1)))
    reply = update(harness, (METADATA_VERSION, 25, UPGRADE))
    assert shows(reply.error_message, "Broker 2", "7 to 24")
    assert levels(harness) == (24, 1)


def test_broker_without_a_feature_supports_level_0_only() -> None:
    harness = cluster(25, elr=False)
    harness._set(3, features=(BrokerFeature(METADATA_VERSION, 7, 25),))
    assert shows(update(harness, (ELR_VERSION, 1, UPGRADE)).error_message, "Broker 3")
    assert update(harness, (ELR_VERSION, 0, UPGRADE)).error_code == 0


@pytest.mark.parametrize(("name", "highest"), [("transaction.version", 2), ("group.version", 1)])
def test_broker_feature_changes_within_levels_all_support(name: str, highest: int) -> None:
    harness = cluster()
    image = harness.controller.image
    for broker_id in (1, 2, 3):
        harness._set(
            broker_id, features=(*image.brokers[broker_id].features, BrokerFeature(name, 0, highest))
        )
    assert update(harness, (name, highest + 1, UPGRADE)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update(harness, (name, highest, UPGRADE)).error_code == 0
    assert image.features[name] == highest
    assert update(harness, (name, 0, UPGRADE)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update(harness, (name, 0, SAFE_DOWNGRADE)).error_code == 0
    assert image.features.get(name, 0) == 0


def test_elr_requires_its_metadata_version() -> None:
    harness = cluster(22, elr=False)
    assert "requires metadata.version 23" in update(harness, (ELR_VERSION, 1, UPGRADE)).error_message
    assert levels(harness) == (22, None)


def test_enabling_elr_removes_min_isr_of_single_brokers() -> None:
    """It would let the high watermark pass replicas that the controller considers complete."""
    harness = cluster(25, elr=False)
    image = harness.controller.image
    default, own = (int(ConfigResourceType.BROKER), ""), (int(ConfigResourceType.BROKER), "2")
    for resource in (default, own):
        image.set_config(resource, MIN_INSYNC_REPLICAS, "2", [])
    image.set_config(own, "log.cleaner.threads", "3", [])
    assert update(harness, (ELR_VERSION, 1, UPGRADE)).error_code == 0
    assert image.config(default) == {MIN_INSYNC_REPLICAS: "2"}
    assert image.config(own) == {"log.cleaner.threads": "3"}


def test_enabling_elr_sets_the_cluster_min_isr() -> None:
    """The controller does not know the values in the brokers' properties files."""
    harness = cluster(25, elr=False)
    harness.controller.settings.min_insync_replicas = 2
    assert update(harness, (ELR_VERSION, 1, UPGRADE)).error_code == 0
    assert harness.controller.image.config(ALL_BROKERS) == {MIN_INSYNC_REPLICAS: "2"}


def test_disabling_elr_clears_eligible_replicas() -> None:
    harness = cluster()
    harness.begin(Partition((1, 2, 3), (1,), 1, elr=(2,)))
    assert update(harness, (ELR_VERSION, 0, SAFE_DOWNGRADE)).error_code == 0
    assert (levels(harness), harness.partition.elr) == ((25, None), ())


@pytest.mark.parametrize("downgrade", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_disabling_elr_keeps_it_for_partitions_without_an_isr(
    downgrade: int,
) -> None:
    """Kafka's controllers also keep it, and elect a member once it is active."""
    harness = cluster()
    harness.begin(Partition((1, 2, 3), (), NO_LEADER, elr=(2, 3), last_known_elr=(3,)))
    harness._set(3, is_fenced=True)
    assert update(harness, (ELR_VERSION, 0, downgrade)).error_code == 0
    assert (harness.partition.elr, harness.partition.isr) == ((2, 3), ())
    harness.unfence(2)
    partition = harness.partition
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (2, (2,), (), ())
    assert partition.recovery == 0


def test_after_disabling_elr_unclean_replica_is_not_elected() -> None:
    harness = cluster()
    harness.begin(Partition((1, 2, 3), (), NO_LEADER, elr=(2,)))
    assert update(harness, (ELR_VERSION, 0, SAFE_DOWNGRADE)).error_code == 0
    harness.restart_uncleanly(2)
    harness.unfence(2)
    assert (harness.partition.leader, harness.partition.isr, harness.partition.elr) == (NO_LEADER, (), ())


def test_only_partitions_without_an_isr_keep_their_eligible_replicas() -> None:
    """With an ISR they miss records that are committed once the ELR is disabled."""
    harness = cluster()
    other_id = KafkaUuid(b"another topic's.")
    without_isr, with_isr = (
        Partition((1, 2, 3), (), NO_LEADER, elr=(2,)),
        Partition((1, 2, 3), (1,), 1, elr=(2,)),
    )
    harness.begin(without_isr)
    harness.apply(partition_record(PartitionId(TOPIC_ID, 1), with_isr))
    harness.apply(TopicRecord("other", other_id), partition_record(PartitionId(other_id, 0), with_isr))
    assert update(harness, (ELR_VERSION, 0, SAFE_DOWNGRADE)).error_code == 0
    image = harness.controller.image
    found = [image.partition(tp) for tp in (PartitionId(TOPIC_ID, 1), PartitionId(other_id, 0))]
    assert [partition.elr for partition in found if partition is not None] == [(), ()]
    assert harness.partition.elr == (2,)


@pytest.mark.parametrize(("version", "reported"), [(0, [METADATA_VERSION]), (1, [METADATA_VERSION]), (2, [])])
def test_older_response_versions_list_each_feature(version: int, reported: list[str]) -> None:
    reply = update(cluster(24), (METADATA_VERSION, 25, UPGRADE), version=version)
    assert [(result.feature, result.error_code) for result in reply.results] == [
        (name, 0) for name in reported
    ]


def test_version_0_allows_downgrade_by_flag() -> None:
    harness = cluster(25)
    for allowed, level in ((False, 25), (True, 24)):
        request = UpdateFeaturesRequest(60_000, [FeatureUpdateKey(METADATA_VERSION, 24, allowed)])
        harness.apply(*plan_update_features(harness.controller, request, 0).records)
        assert levels(harness) == (level, 1)


def test_enabling_elr_records_the_last_known_elr() -> None:
    """Without an ELR the last in-sync replica stays in the ISR and no longer leads."""
    harness = cluster(25, elr=False)
    harness.begin(Partition((1, 2, 3), (1,), NO_LEADER))
    assert update(harness, (ELR_VERSION, 1, UPGRADE)).error_code == 0
    harness.restart_uncleanly(1)
    assert (harness.partition.isr, harness.partition.last_known_elr) == ((), (1,))


def test_every_registered_controller_must_support_the_level() -> None:
    """A registered controller that does not must be upgraded, or unregistered if it is gone."""
    harness = cluster(25)
    old = ControllerFeature(METADATA_VERSION, 21, 25)
    harness.apply(RegisterControllerRecord(7, INCARNATION, features=[old]))
    refused = update(harness, (METADATA_VERSION, 26, UPGRADE))
    assert (refused.error_code, levels(harness)) == (ErrorCode.INVALID_UPDATE_VERSION, (25, 1))
    assert shows(refused.error_message, "Controller 7", "21 to 25", "quorumd controllers unregister 7")
    plan = plan_unregister_controller(harness.controller, UnregisterControllerRequest(7), 0)
    harness.apply(*plan.records)
    assert update(harness, (METADATA_VERSION, 26, UPGRADE)).error_code == 0


def test_unregistered_voter_blocks_feature_changes() -> None:
    harness = cluster(25)
    harness.controller.other_voters = lambda: [7, 8]
    known = ControllerFeature(METADATA_VERSION, 21, 33)
    harness.apply(RegisterControllerRecord(7, INCARNATION, features=[known]))
    refused = update(harness, (METADATA_VERSION, 26, UPGRADE))
    assert "Controller 8 has not registered" in refused.error_message
    harness.apply(RegisterControllerRecord(8, INCARNATION, features=[known]))
    assert update(harness, (METADATA_VERSION, 26, UPGRADE)).error_code == 0


def test_levels_change_only_after_bootstrap_records() -> None:
    harness = cluster(elr=False)
    harness.controller.image.features.clear()
    assert update(harness, (ELR_VERSION, 0, SAFE_DOWNGRADE)).error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("count", "error"),
    [(MAX_UPDATES, ErrorCode.INVALID_UPDATE_VERSION), (MAX_UPDATES + 1, ErrorCode.INVALID_REQUEST)],
)
def test_many_updates_of_unknown_features_get_an_error_response(count: int, error: ErrorCode) -> None:
    """The message of 50,000 errors did not fit a string, so that the connection was closed after 182 ms."""
    unknown = [("\U0001f600" * (number + 8000), 1, UPGRADE) for number in range(count)]
    response = update(cluster(), *unknown)
    assert response.error_code == error
    assert encode(response, 2)
