"""Bootstrap metadata: the initial feature levels of a cluster and their records, as of `kafka-storage format`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorumd.controller.cluster_image import KRAFT_VERSION, METADATA_VERSION
from quorumd.controller.metadata_versions import (
    LATEST_VERSION,
    METADATA_VERSIONS,
    MINIMUM_VERSION,
    SUPPORTED_FEATURES,
    default_levels,
    parse_metadata_version,
    unmet_dependencies,
)
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.wire import Message


def initial_feature_levels(release: str | None, features: Mapping[str, int]) -> dict[str, int]:
    """Return the level of every feature: that in `features`, or else that of the release (if None, the newest).

    Raises ValueError for an unknown release, feature or level, and for a level whose dependencies are not met.
    """
    if release is not None and METADATA_VERSION in features:
        raise ValueError(f"a release version cannot be combined with a level of {METADATA_VERSION}")
    if METADATA_VERSION in features:
        metadata_version = features[METADATA_VERSION]
    else:
        metadata_version = release_level(release) if release is not None else LATEST_VERSION.level
    levels = {**default_levels(metadata_version), **features}
    check_levels(levels)
    return levels


def release_level(text: str) -> int:
    """Parse a metadata version: a release (4.1, 4.1.2) or a name (4.1-IV0). Raises ValueError."""
    found = parse_metadata_version(text)
    if found is None:
        names = ", ".join(version.name for version in METADATA_VERSIONS)
        raise ValueError(
            f"unknown release version {text!r}; known versions: {names}, and releases without -IV"
        )
    return found.level


def check_levels(levels: Mapping[str, int]) -> None:
    """Check feature levels. Raises ValueError for an unsupported level or one whose dependencies are not met."""
    supported = {feature.name: feature for feature in SUPPORTED_FEATURES}
    for name, level in sorted(levels.items()):
        feature = supported.get(name)
        if feature is None:
            raise ValueError(f"unknown feature {name!r}; known features: {', '.join(sorted(supported))}")
        if not feature.lowest <= level <= feature.highest:
            raise ValueError(
                f"{name} {level} is not supported; supported levels: {feature.lowest} to {feature.highest}"
            )
        for needed, minimum in unmet_dependencies(name, level, levels):
            raise ValueError(
                f"{name} {level} needs {needed} {minimum} or higher, not {levels.get(needed, 0)}"
            )
    if levels.get(METADATA_VERSION, 0) < MINIMUM_VERSION.level:
        raise ValueError(f"{METADATA_VERSION} is missing")
    if levels.get(KRAFT_VERSION, 1) == 0:
        raise ValueError(
            f"{KRAFT_VERSION} 0 is not supported: voters are always in the log, which is level 1"
        )


def feature_records(levels: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """Return the records of these levels. Features at level 0 have none, nor has kraft.version, which the quorum
    stores in its voter records (KIP-853)."""
    others = sorted(set(levels) - {METADATA_VERSION, KRAFT_VERSION})
    return [
        FeatureLevelRecord(name, levels[name]) for name in (METADATA_VERSION, *others) if levels[name] > 0
    ]


def feature_levels_from(records: Iterable[Message]) -> dict[str, int]:
    """Return the level that these records set for each feature."""
    return {each.name: each.feature_level for each in records if isinstance(each, FeatureLevelRecord)}
