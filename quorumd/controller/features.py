"""UpdateFeatures: the levels that the whole cluster works at (KIP-584, KIP-778)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from quorumd.controller.cluster_image import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    ClusterImage,
    ResourceType,
)
from quorumd.controller.controller import Controller
from quorumd.controller.plan import Plan
from quorumd.controller.record_versions import ELR_FIELDS_SINCE
from quorumd.errors import ErrorCode
from quorumd.protocol.messages import update_features_response as wire
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from quorumd.protocol.wire import Message


class SupportedFeature(NamedTuple):
    """The levels of a feature that this version can work at."""

    name: str
    lowest: int
    highest: int


SUPPORTED_FEATURES: Final = (
    SupportedFeature(METADATA_VERSION, 21, 25),
    SupportedFeature(KRAFT_VERSION, 0, 1),
    SupportedFeature(ELR_VERSION, 0, 1),
    SupportedFeature("transaction.version", 0, 2),
    SupportedFeature("group.version", 0, 1),
)
"""metadata.version from 3.9-IV0, the first with voters that can change, to 4.0-IV3: what `record_versions` writes
is understood at these. Every 4.x broker works at 25. The last two are between brokers and their clients (KIP-890,
KIP-848): the controller keeps their levels."""


class UpgradeType(IntEnum):
    """UpdateFeatures' UpgradeType."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class _Refused(Exception):
    """Why a level is not set: the text of the answer."""


def plan_update_features(controller: Controller, message: UpdateFeaturesRequest, version: int) -> Plan:
    """All updates, or none of them. Levels that are so already are no change, and no error."""
    image = controller.image
    wanted = {update.feature: update.max_version_level for update in message.feature_updates}
    records: list[Message] = []
    try:
        if len(wanted) < len(message.feature_updates):
            raise _Refused("A feature is named twice.")
        for update in message.feature_updates:
            level = update.max_version_level
            _check_supported(image, update.feature, level)
            upgrade_type = _upgrade_type(update, version)
            _check_direction(image.features.get(update.feature, 0), level, upgrade_type, update.feature)
            if level != image.features.get(update.feature, 0):
                records_of = _RECORDS.get(update.feature)
                records += (
                    records_of(image, level, upgrade_type, wanted)
                    if records_of is not None
                    else [FeatureLevelRecord(update.feature, level)]
                )
    except _Refused as refused:
        text = f"No feature was changed: {refused}"
        return Plan((), wire.UpdateFeaturesResponse(0, int(ErrorCode.INVALID_UPDATE_VERSION), text))
    results = [wire.UpdatableFeatureResult(name, 0, None) for name in wanted] if version <= 1 else []
    return Plan(() if message.validate_only else records, wire.UpdateFeaturesResponse(0, 0, None, results))


def _upgrade_type(update: FeatureUpdateKey, version: int) -> UpgradeType:
    """Version 0 can only say whether a downgrade is all right."""
    if version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    try:
        return UpgradeType(update.upgrade_type)
    except ValueError:
        raise _Refused(
            f"{update.feature}: upgrade type {update.upgrade_type} is none of 1 (upgrade), 2 (safe downgrade), "
            "3 (unsafe downgrade)."
        ) from None


def _check_supported(image: ClusterImage, name: str, level: int) -> None:
    """Every node and every registered broker must be able to work at the level."""
    supported = next((feature for feature in SUPPORTED_FEATURES if feature.name == name), None)
    if supported is None:
        known = ", ".join(feature.name for feature in SUPPORTED_FEATURES)
        raise _Refused(f"{name!r} is not known here; these are: {known}.")
    if not supported.lowest <= level <= supported.highest:
        raise _Refused(
            f"{name} {level} is not supported by the controllers: {supported.lowest} to {supported.highest} are."
        )
    if name == KRAFT_VERSION:
        raise _Refused(f"{name} is 1 since the cluster was formatted, and not changed by this request.")
    for _, broker in sorted(image.brokers.items()):
        # A feature that a broker does not name is one that it can only leave off.
        lowest, highest = next(
            ((known.min_level, known.max_level) for known in broker.features if known.name == name), (0, 0)
        )
        if not lowest <= level <= highest:
            raise _Refused(
                f"{name} {level} is not supported by broker {broker.id}: {lowest} to {highest} are."
            )


def _check_direction(current: int, level: int, upgrade_type: UpgradeType, name: str) -> None:
    if level < current and upgrade_type is UpgradeType.UPGRADE:
        raise _Refused(f"{name} is {current}: to go down to {level} takes a safe or an unsafe downgrade.")
    if level > current and upgrade_type is not UpgradeType.UPGRADE:
        raise _Refused(f"{name} is {current}: {level} is no downgrade.")


def _metadata_version(
    image: ClusterImage, level: int, upgrade_type: UpgradeType, wanted: Mapping[str, int]
) -> list[Message]:
    """Down to where the ELR cannot be written, not even an unsafe downgrade goes, as in Kafka: who reads the log
    from its beginning has read those fields."""
    del upgrade_type, wanted
    if level < ELR_FIELDS_SINCE <= image.metadata_version:
        raise _Refused(
            f"{METADATA_VERSION} cannot go down to {level}: the log holds what is not known below {ELR_FIELDS_SINCE}."
        )
    return [FeatureLevelRecord(METADATA_VERSION, level)]


def _elr_version(
    image: ClusterImage, level: int, upgrade_type: UpgradeType, wanted: Mapping[str, int]
) -> list[Message]:
    """Off: whoever is only eligible is nothing any more. On: brokers must agree with the controller on what
    min.insync.replicas is, so none of them keeps a value of its own (KIP-966)."""
    if level == 0:
        only_eligible = sum(
            not image.topics[where.topic_id].partitions[where.number].isr for where in image.index.leaderless
        )
        if only_eligible and upgrade_type is not UpgradeType.UNSAFE_DOWNGRADE:
            raise _Refused(
                f"{ELR_VERSION} 0 would leave {only_eligible} partitions without anyone who may lead: start the "
                "brokers that are eligible first, or use an unsafe downgrade."
            )
        return [FeatureLevelRecord(ELR_VERSION, 0), ClearElrRecord("")]
    metadata_version = wanted.get(METADATA_VERSION, image.metadata_version)
    if metadata_version < ELR_FIELDS_SINCE:
        raise _Refused(
            f"{ELR_VERSION} {level} needs {METADATA_VERSION} {ELR_FIELDS_SINCE} or higher, not {metadata_version}."
        )
    own_values = [
        ConfigRecord(kind, name, MIN_INSYNC_REPLICAS, None)
        for (kind, name), configs in sorted(image.configs.items())
        if kind == ResourceType.BROKER and name and MIN_INSYNC_REPLICAS in configs
    ]
    return [*own_values, FeatureLevelRecord(ELR_VERSION, level)]


_RECORDS: Final = {METADATA_VERSION: _metadata_version, ELR_VERSION: _elr_version}
"""Of features whose level is more than a number to the controller."""
