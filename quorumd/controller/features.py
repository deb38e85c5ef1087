"""UpdateFeatures: the finalized feature levels of the cluster (KIP-584, KIP-778)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from quorumd.controller.cluster_image import (
    ALL_BROKERS,
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    ClusterImage,
)
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.metadata_versions import SUPPORTED_FEATURES, changes_records, unmet_dependencies
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import update_features_response as wire
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from quorumd.protocol.wire import Message

KRAFT_VERSION_LEVEL: Final = 1
"""The level of dynamic voters (KIP-853), at which every quorum of quorumd starts and stays."""
MAX_UPDATES: Final = 100
"""Updates in one request; there are fewer features."""
_MAX_TEXT: Final = 8000
"""Characters of an error message: names in a request are long enough to exceed the limit of a string together."""


class UpgradeType(IntEnum):
    """UpdateFeatures' UpgradeType."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def plan_update_features(
    controller: Controller, message: UpdateFeaturesRequest, version: int
) -> ControllerResult:
    """Plan all updates or none. A level that is already finalized is not an error.

    The error message lists the problems of all updates: `kafka-features upgrade --release-version` requests every
    feature of a release at once.
    """
    if METADATA_VERSION not in controller.image.features:
        # The bootstrap records are not written yet and would overwrite a level acknowledged now.
        text = "The cluster has no finalized features yet; retry the request."
        return ControllerResult((), wire.UpdateFeaturesResponse(0, int(ErrorCode.NOT_CONTROLLER), text))
    if len(message.feature_updates) > MAX_UPDATES:
        text = f"The request has {len(message.feature_updates)} updates; the maximum is {MAX_UPDATES}."
        return ControllerResult((), wire.UpdateFeaturesResponse(0, int(ErrorCode.INVALID_REQUEST), text))
    requested = {update.feature: update.max_version_level for update in message.feature_updates}
    levels = {**controller.image.features, KRAFT_VERSION: KRAFT_VERSION_LEVEL, **requested}
    records: list[Message] = []
    problems = ["Duplicate feature in the request."] if len(requested) < len(message.feature_updates) else []
    for update in message.feature_updates:
        try:
            records += _plan_update(controller, update, _upgrade_type(update, version), levels)
        except RequestError as error:
            problems.append(
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {error}"
            )
    if problems:
        text = " ".join(problems)[:_MAX_TEXT]
        return ControllerResult(
            (), wire.UpdateFeaturesResponse(0, int(ErrorCode.INVALID_UPDATE_VERSION), text)
        )
    results = [wire.UpdatableFeatureResult(name, 0, None) for name in requested] if version <= 1 else []
    return ControllerResult(
        () if message.validate_only else records, wire.UpdateFeaturesResponse(0, 0, None, results)
    )


def _plan_update(
    controller: Controller, update: FeatureUpdateKey, upgrade_type: UpgradeType, levels: Mapping[str, int]
) -> list[Message]:
    """Plan the records of one update. `levels`: the levels of all features after all updates. Raises RequestError."""
    image, name, level = controller.image, update.feature, update.max_version_level
    current = finalized_level(image, name)
    if level == current:
        return []
    _check_supported(image, name, level)
    _check_controllers(controller, name, level)
    _check_upgrade_type(current, level, upgrade_type, name)
    for needed, minimum in unmet_dependencies(name, level, levels):
        raise _invalid_update(f"It requires {needed} {minimum} or higher, not {levels.get(needed, 0)}.")
    if name == METADATA_VERSION and changes_records(current, level):
        # An unsafe downgrade would not help: a node that reads the log from its start still finds those records.
        raise _invalid_update(
            f"{name} is {current}, and the metadata log may hold records that {level} does not know; neither a safe "
            "nor an unsafe downgrade is supported."
        )
    if name == ELR_VERSION:
        return _switch_elr(controller, level)
    return [FeatureLevelRecord(name, level)]


def finalized_level(image: ClusterImage, name: str) -> int:
    """Return the finalized level of a feature, 0 if it is off. That of kraft.version is not in the image."""
    return KRAFT_VERSION_LEVEL if name == KRAFT_VERSION else image.features.get(name, 0)


def _upgrade_type(update: FeatureUpdateKey, version: int) -> UpgradeType:
    """Return the upgrade type; requests of version 0 have a flag that allows a downgrade. Raises RequestError."""
    if version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    try:
        return UpgradeType(update.upgrade_type)
    except ValueError:
        raise _invalid_update(
            f"Unknown upgrade type {update.upgrade_type}; expected 1 (upgrade), 2 (safe downgrade) or 3 (unsafe "
            "downgrade)."
        ) from None


def _check_supported(image: ClusterImage, name: str, level: int) -> None:
    """Check that this node and every registered broker support the level. Raises RequestError."""
    supported = next((feature for feature in SUPPORTED_FEATURES if feature.name == name), None)
    if supported is None:
        known = ", ".join(feature.name for feature in SUPPORTED_FEATURES)
        raise _invalid_update(f"The controllers do not support this feature; supported features: {known}.")
    _check_range("The active controller", level, supported.lowest, supported.highest)
    for _, broker in sorted(image.brokers.items()):
        # A broker supports a feature that it does not list at level 0 only.
        lowest, highest = next(
            ((known.min_level, known.max_level) for known in broker.features if known.name == name), (0, 0)
        )
        _check_range(f"Broker {broker.id}", level, lowest, highest)


def _check_controllers(controller: Controller, name: str, level: int) -> None:
    """Check, as Kafka does, that all voters are registered and every registered controller supports the level.

    This includes observers, which read the log too. A controller that is permanently gone must be unregistered.
    Raises RequestError.
    """
    registered = controller.image.controllers
    for controller_id, other in sorted(registered.items()):
        try:
            _check_range(f"Controller {controller_id}", level, *other.features.get(name, (0, 0)))
        except RequestError as error:
            remedy = (
                f"if it is permanently gone, remove it with `quorumd controllers unregister {controller_id}`"
            )
            raise _invalid_update(f"{error} Upgrade it, or {remedy}.") from None
    missing = [voter for voter in controller.other_voters() if voter not in registered]
    if missing:
        raise _invalid_update(
            f"Controller {missing[0]} has not registered; start it, or remove it from the voters."
        )


def _check_range(node: str, level: int, lowest: int, highest: int) -> None:
    if not lowest <= level <= highest:
        if highest == 0:
            raise _invalid_update(f"{node} does not support this feature.")
        raise _invalid_update(f"{node} supports only versions {lowest} to {highest}.")


def _check_upgrade_type(current: int, level: int, upgrade_type: UpgradeType, name: str) -> None:
    if name == KRAFT_VERSION:
        raise _invalid_update(
            f"{name} is {current} since the cluster was formatted, and cannot be downgraded."
        )
    if level < current and upgrade_type is UpgradeType.UPGRADE:
        raise _invalid_update(
            f"{name} is {current}; lowering it requires upgrade type safe downgrade or unsafe downgrade."
        )
    if level > current and upgrade_type is not UpgradeType.UPGRADE:
        raise _invalid_update(f"{name} is {current}; {level} is not a downgrade.")


def _switch_elr(controller: Controller, level: int) -> list[Message]:
    """Plan the records that switch ELR on or off (KIP-966).

    Off: clear the ELR of every partition with an ISR, since its members may lack records that are committed from now
    on. On: set the cluster-wide min.insync.replicas and remove those of single brokers, since brokers and controllers
    must agree on it.
    """
    image = controller.image
    if level == 0:
        return [FeatureLevelRecord(ELR_VERSION, 0), *_superfluous_elr(image)]
    values = default_min_isr_records(image, controller.settings.min_insync_replicas)
    values += [
        ConfigRecord(kind, name, MIN_INSYNC_REPLICAS, None)
        for (kind, name), configs in sorted(image.configs.items())
        if kind == ConfigResourceType.BROKER and name and MIN_INSYNC_REPLICAS in configs
    ]
    return [*values, FeatureLevelRecord(ELR_VERSION, level)]


def _superfluous_elr(image: ClusterImage) -> list[Message]:
    """Plan the records that clear the ELR of every partition with an ISR. A partition without an ISR keeps its ELR:
    only these replicas are known to have every committed record, and nothing is committed until one of them leads."""
    needed: set[PartitionId] = set()
    superfluous: list[PartitionId] = []
    for tp in dict.fromkeys((*image.index.with_elr, *image.index.leaderless)):
        partition = image.topics[tp.topic_id].partitions[tp.number]
        if not partition.isr and (partition.elr or partition.last_known_elr):
            needed.add(tp)
        elif partition.elr or partition.last_known_elr:
            superfluous.append(tp)
    if not needed:
        return [ClearElrRecord("")]
    keeping = {tp.topic_id for tp in needed}
    clearable = dict.fromkeys(tp.topic_id for tp in superfluous if tp.topic_id not in keeping)
    records: list[Message] = [ClearElrRecord(image.topics[topic_id].name) for topic_id in clearable]
    for tp in superfluous:
        if tp.topic_id in keeping:
            record = PartitionChangeRecord(tp.number, tp.topic_id)
            record.eligible_leader_replicas = record.last_known_elr = []
            records.append(record)
    return records


def default_min_isr_records(image: ClusterImage, value: int) -> list[Message]:
    """Plan the record that sets the cluster-wide min.insync.replicas unless it is set, as Kafka's controllers do. It
    overrides the values in the brokers' properties files, which the controller cannot know."""
    if MIN_INSYNC_REPLICAS in image.config(ALL_BROKERS):
        return []
    return [ConfigRecord(*ALL_BROKERS, MIN_INSYNC_REPLICAS, str(value))]


def _invalid_update(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_UPDATE_VERSION, message)
