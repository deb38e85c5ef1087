from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.broker import BrokerFeature
from quorumd.controller.cluster_image import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    ResourceType,
)
from quorumd.controller.features import plan_update_features
from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.partition_world import PartitionWorld

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def cluster(metadata_version: int = 25, *, elr: bool = True) -> PartitionWorld:
    """With a broker that supports more than the controllers, and one that is fenced."""
    world = PartitionWorld([1, 2, 3], elr=elr)
    world.apply(FeatureLevelRecord(METADATA_VERSION, metadata_version))
    for broker_id in (1, 2, 3):
        features = (BrokerFeature(METADATA_VERSION, 7, 30), BrokerFeature(ELR_VERSION, 0, 1))
        world._set(broker_id, features=features)
    world._set(2, is_fenced=True)
    return world


def update(
    world: PartitionWorld,
    *updates: tuple[str, int, int],
    validate_only: bool = False,
    version: int = 2,
) -> Any:
    """Each as (feature, level, upgrade type). The answer; what is planned is applied."""
    asked = [FeatureUpdateKey(name, level, False, kind) for name, level, kind in updates]
    request = UpdateFeaturesRequest(60_000, asked, validate_only)
    plan = plan_update_features(world.controller, request, version)
    world.apply(*plan.records)
    answer: Any = plan.answer
    assert (answer.error_message is None) == (answer.error_code == 0)
    return answer


def levels(world: PartitionWorld) -> tuple[int | None, int | None]:
    features = world.controller.image.features
    return features.get(METADATA_VERSION), features.get(ELR_VERSION)


def test_levels_go_up_together_or_not_at_all() -> None:
    world = cluster(22, elr=False)
    refused = update(world, (METADATA_VERSION, 23, UPGRADE), (ELR_VERSION, 2, UPGRADE))
    assert (refused.error_code, levels(world)) == (ErrorCode.INVALID_UPDATE_VERSION, (22, None))
    assert update(world, (ELR_VERSION, 1, UPGRADE), (METADATA_VERSION, 25, UPGRADE)).error_code == 0
    assert levels(world) == (25, 1)


def test_what_is_so_already_is_no_record() -> None:
    world = cluster()
    before = world.next_offset
    assert update(world, (METADATA_VERSION, 25, UPGRADE), (ELR_VERSION, 1, SAFE_DOWNGRADE)).error_code == 0
    assert world.next_offset == before


def test_validating_changes_nothing() -> None:
    world = cluster(23)
    assert update(world, (METADATA_VERSION, 25, UPGRADE), validate_only=True).error_code == 0
    assert update(world, (METADATA_VERSION, 26, UPGRADE), validate_only=True).error_code != 0
    assert levels(world) == (23, 1)


REFUSED = [
    ("a feature nobody knows", ("share.version", 1, UPGRADE), "'share.version' is not known here"),
    ("what a broker lacks", ("group.version", 1, UPGRADE), "not supported by broker 1: 0 to 0 are"),
    ("kraft.version", (KRAFT_VERSION, 1, UPGRADE), "not changed by this request"),
    ("above what is supported", (METADATA_VERSION, 26, UPGRADE), "21 to 25 are"),
    ("below what is supported", (METADATA_VERSION, 20, UNSAFE_DOWNGRADE), "21 to 25 are"),
    ("a negative level", (ELR_VERSION, -1, SAFE_DOWNGRADE), "0 to 1 are"),
    ("down as an upgrade", (METADATA_VERSION, 23, UPGRADE), "takes a safe or an unsafe downgrade"),
    ("up as a downgrade", (METADATA_VERSION, 25, SAFE_DOWNGRADE), "is no downgrade"),
    ("no kind of change", (METADATA_VERSION, 25, 0), "upgrade type 0 is none of"),
    ("down beyond the ELR", (METADATA_VERSION, 22, SAFE_DOWNGRADE), "not known below 23"),
    ("down beyond the ELR by force", (METADATA_VERSION, 22, UNSAFE_DOWNGRADE), "not known below 23"),
]


@pytest.mark.parametrize(("asked", "text"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_is_refused_with_its_reason(asked: tuple[str, int, int], text: str) -> None:
    world = cluster(24)
    answer = update(world, asked)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert text in answer.error_message
    assert levels(world) == (24, 1)


def test_a_feature_is_named_once() -> None:
    answer = update(cluster(23), (METADATA_VERSION, 24, UPGRADE), (METADATA_VERSION, 25, UPGRADE))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_metadata_version_goes_down_where_the_records_stay_the_same() -> None:
    world = cluster(25)
    assert update(world, (METADATA_VERSION, 23, SAFE_DOWNGRADE)).error_code == 0
    assert levels(world) == (23, 1)


def test_a_level_that_a_fenced_broker_lacks_is_refused() -> None:
    world = cluster(24)
    world._set(2, features=(BrokerFeature(METADATA_VERSION, 7, 24), BrokerFeature(ELR_VERSION, 0, 1)))
    answer = update(world, (METADATA_VERSION, 25, UPGRADE))
    assert "not supported by broker 2: 7 to 24 are" in answer.error_message
    assert levels(world) == (24, 1)


def test_a_broker_that_names_no_feature_can_only_leave_it_off() -> None:
    world = cluster(25, elr=False)
    world._set(3, features=(BrokerFeature(METADATA_VERSION, 7, 25),))
    assert "broker 3: 0 to 0" in update(world, (ELR_VERSION, 1, UPGRADE)).error_message
    assert update(world, (ELR_VERSION, 0, UPGRADE)).error_code == 0


@pytest.mark.parametrize(("name", "highest"), [("transaction.version", 2), ("group.version", 1)])
def test_a_feature_of_brokers_goes_up_and_down_where_all_of_them_know_it(name: str, highest: int) -> None:
    world = cluster()
    image = world.controller.image
    for broker_id in (1, 2, 3):
        world._set(broker_id, features=(*image.brokers[broker_id].features, BrokerFeature(name, 0, highest)))
    assert update(world, (name, highest + 1, UPGRADE)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update(world, (name, highest, UPGRADE)).error_code == 0
    assert image.features[name] == highest
    assert update(world, (name, 0, UPGRADE)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update(world, (name, 0, SAFE_DOWNGRADE)).error_code == 0
    assert image.features.get(name, 0) == 0


def test_the_elr_needs_records_that_hold_it() -> None:
    world = cluster(22, elr=False)
    assert "needs metadata.version 23" in update(world, (ELR_VERSION, 1, UPGRADE)).error_message
    assert levels(world) == (22, None)


def test_with_the_elr_no_broker_keeps_a_min_isr_of_its_own() -> None:
    """It would let the high watermark pass replicas that the controller takes for complete."""
    world = cluster(25, elr=False)
    image = world.controller.image
    default, own = (int(ResourceType.BROKER), ""), (int(ResourceType.BROKER), "2")
    for resource in (default, own):
        image.set_config(resource, MIN_INSYNC_REPLICAS, "2", [])
    image.set_config(own, "log.cleaner.threads", "3", [])
    assert update(world, (ELR_VERSION, 1, UPGRADE)).error_code == 0
    assert image.config(default) == {MIN_INSYNC_REPLICAS: "2"}
    assert image.config(own) == {"log.cleaner.threads": "3"}


def test_without_the_elr_nobody_is_eligible() -> None:
    world = cluster()
    world.begin(Partition((1, 2, 3), (1,), 1, elr=(2,)))
    assert update(world, (ELR_VERSION, 0, SAFE_DOWNGRADE)).error_code == 0
    assert (levels(world), world.partition.elr) == ((25, None), ())


def test_the_elr_is_not_taken_from_partitions_that_have_nothing_else() -> None:
    world = cluster()
    world.begin(Partition((1, 2, 3), (), NO_LEADER, elr=(2,), last_known_elr=(2,)))
    answer = update(world, (ELR_VERSION, 0, SAFE_DOWNGRADE))
    assert "leave 1 partitions without anyone" in answer.error_message
    assert world.partition.elr == (2,)
    assert update(world, (ELR_VERSION, 0, UNSAFE_DOWNGRADE)).error_code == 0
    assert world.partition.elr == ()


@pytest.mark.parametrize(("version", "told"), [(0, [METADATA_VERSION]), (1, [METADATA_VERSION]), (2, [])])
def test_older_versions_are_told_each_feature(version: int, told: list[str]) -> None:
    answer = update(cluster(24), (METADATA_VERSION, 25, UPGRADE), version=version)
    assert [(result.feature, result.error_code) for result in answer.results] == [(name, 0) for name in told]


def test_the_oldest_version_allows_a_downgrade_with_a_flag() -> None:
    world = cluster(25)
    for allowed, level in ((False, 25), (True, 24)):
        request = UpdateFeaturesRequest(60_000, [FeatureUpdateKey(METADATA_VERSION, 24, allowed)])
        world.apply(*plan_update_features(world.controller, request, 0).records)
        assert levels(world) == (level, 1)
