"""The features of a cluster and their levels, as released by Kafka 4.4.0 (KIP-584, KIP-778, KIP-1022).

A metadata version has a level, a name and a release; every other feature has a default level at each metadata
version, the initial level of a cluster formatted for that release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from quorumd.controller.cluster_image import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION

GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
TRANSACTION_VERSION: Final = "transaction.version"


class MetadataVersion(NamedTuple):
    """One level of metadata.version. `changes_records`: whether it introduced records or fields that readers at the
    previous level do not know."""

    level: int
    name: str
    changes_records: bool

    @property
    def release(self) -> str:
        """The release that introduced this version, for example 4.3."""
        return self.name.partition("-")[0]

    def __str__(self) -> str:
        return self.name


METADATA_VERSIONS: Final = (
    MetadataVersion(21, "3.9-IV0", False),
    MetadataVersion(22, "4.0-IV0", False),
    MetadataVersion(23, "4.0-IV1", True),  # the ELR in records of partitions (KIP-966)
    MetadataVersion(24, "4.0-IV2", False),
    MetadataVersion(25, "4.0-IV3", False),
    MetadataVersion(26, "4.1-IV0", False),
    MetadataVersion(27, "4.1-IV1", False),
    MetadataVersion(28, "4.2-IV0", False),
    MetadataVersion(29, "4.2-IV1", False),
    MetadataVersion(30, "4.3-IV0", True),  # cordoned directories in records of brokers (KIP-1066)
    MetadataVersion(31, "4.4-IV0", False),
    MetadataVersion(32, "4.4-IV1", True),  # ranges of addresses in access control entries (KIP-1276)
    MetadataVersion(33, "4.4-IV2", True),  # UnregisterControllerRecord (KIP-1312)
)
"""From the first version with dynamic voters (KIP-853) to the newest one. Kafka 4 itself supports versions from 7."""

MINIMUM_VERSION: Final = METADATA_VERSIONS[0]
LATEST_VERSION: Final = METADATA_VERSIONS[-1]


class FeatureLevel(NamedTuple):
    """A level of a feature other than metadata.version. `default_since`: the metadata version from which new clusters
    have at least this level. `dependencies`: minimum levels of other features, by name."""

    level: int
    default_since: int
    dependencies: Mapping[str, int] = {}


class Feature(NamedTuple):
    """A feature other than metadata.version. `levels`: ascending, without level 0, at which the feature is off."""

    name: str
    levels: tuple[FeatureLevel, ...]

    def default_level(self, metadata_version: int) -> int:
        """Return the initial level of a new cluster at this metadata version."""
        return max((each.level for each in self.levels if each.default_since <= metadata_version), default=0)


FEATURES: Final = (
    Feature(ELR_VERSION, (FeatureLevel(1, 26, {METADATA_VERSION: 23}),)),
    Feature(GROUP_VERSION, (FeatureLevel(1, 22),)),
    Feature(KRAFT_VERSION, (FeatureLevel(1, 21),)),
    Feature(SHARE_VERSION, (FeatureLevel(1, 28), FeatureLevel(2, 31))),
    Feature(STREAMS_VERSION, (FeatureLevel(1, 29),)),
    Feature(TRANSACTION_VERSION, (FeatureLevel(1, 24), FeatureLevel(2, 24))),
)
"""In order: eligible leader replicas (KIP-966), the consumer group protocol (KIP-848), dynamic voters (KIP-853),
share groups (KIP-932) and their dead letter queues (KIP-1191), streams groups (KIP-1071), a producer epoch per
transaction (KIP-890)."""


class SupportedFeature(NamedTuple):
    """The levels of a feature that this version supports."""

    name: str
    lowest: int
    highest: int


SUPPORTED_FEATURES: Final = (
    SupportedFeature(METADATA_VERSION, MINIMUM_VERSION.level, LATEST_VERSION.level),
    *(SupportedFeature(feature.name, 0, feature.levels[-1].level) for feature in FEATURES),
)


def metadata_version_for_level(level: int) -> MetadataVersion | None:
    """Return the metadata version of this level, None if it is unknown."""
    return next((version for version in METADATA_VERSIONS if version.level == level), None)


def parse_metadata_version(text: str) -> MetadataVersion | None:
    """Return the version of this name (4.1-IV0), or the newest of this release (4.1, 4.1.2); None if unknown."""
    release = ".".join(text.split(".")[:2])
    found = [version for version in METADATA_VERSIONS if release in (version.name, version.release)]
    return found[-1] if found else None


def default_levels(metadata_version: int) -> dict[str, int]:
    """Return the initial level of every feature, by name, in a new cluster at this metadata version; 0 is off."""
    levels = {feature.name: feature.default_level(metadata_version) for feature in FEATURES}
    return {METADATA_VERSION: metadata_version, **levels}


def changes_records(higher: int, lower: int) -> bool:
    """Whether a log at the higher metadata version may have records that readers at the lower one do not know."""
    return any(version.changes_records for version in METADATA_VERSIONS if lower < version.level <= higher)


def unmet_dependencies(name: str, level: int, levels: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    """Iterate over the dependencies of a feature's level that `levels` does not meet: (feature, required level)."""
    for feature in FEATURES:
        for each in feature.levels if feature.name == name else ():
            if each.level == level:
                yield from (
                    (n, minimum) for n, minimum in each.dependencies.items() if levels.get(n, 0) < minimum
                )
