from __future__ import annotations

import re

import pytest

from quorumd.controller.cluster_image import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION
from quorumd.controller.metadata_versions import (
    FEATURES,
    METADATA_VERSIONS,
    SUPPORTED_FEATURES,
    changes_records,
    default_levels,
    metadata_version_for_level,
    parse_metadata_version,
    unmet_dependencies,
)
from tests.support.documentation import ROOT

DEFAULTS = {
    "3.9": (21, 0, 0, 0, 0, 0),
    "4.0": (25, 0, 1, 0, 0, 2),
    "4.1": (27, 1, 1, 0, 0, 2),
    "4.2": (29, 1, 1, 1, 1, 2),
    "4.3": (30, 1, 1, 1, 1, 2),
    "4.4": (33, 1, 1, 2, 1, 2),
}
"""Output of `kafka-storage version-mapping --release-version` of Kafka 4.4.0: metadata.version, ELR, group, share,
streams and transaction."""


@pytest.mark.parametrize("release", DEFAULTS)
def test_levels_of_a_release_equal_those_of_kafka_storage(release: str) -> None:
    found = parse_metadata_version(release)
    assert found is not None
    levels = default_levels(found.level)
    assert levels.pop(KRAFT_VERSION) == 1
    names = (METADATA_VERSION, ELR_VERSION, "group.version", "share.version", "streams.version")
    assert tuple(levels[name] for name in (*names, "transaction.version")) == DEFAULTS[release]


def test_documented_levels_are_those_of_kafka_storage() -> None:
    rows = re.findall(r"^\| (\d\.\d) \| (.*) \|$", (ROOT / "docs/features.md").read_text(), re.MULTILINE)
    assert {release: tuple(map(int, levels.split(" | "))) for release, levels in rows} == DEFAULTS


@pytest.mark.parametrize(
    ("text", "level"),
    [("4.1", 27), ("4.1.0", 27), ("4.1.7", 27), ("4.1-IV0", 26), ("4.4-IV2", 33), ("4.5", None), ("4", None)],
)
def test_names_and_releases_of_metadata_versions(text: str, level: int | None) -> None:
    found = parse_metadata_version(text)
    assert (found.level if found is not None else None) == level


def test_metadata_versions_are_consecutive() -> None:
    levels = [version.level for version in METADATA_VERSIONS]
    assert levels == list(range(levels[0], levels[-1] + 1))
    for feature in FEATURES:
        assert [each.level for each in feature.levels] == list(range(1, len(feature.levels) + 1))
    assert len({feature.name for feature in SUPPORTED_FEATURES}) == len(SUPPORTED_FEATURES)


def test_default_levels_satisfy_their_dependencies() -> None:
    for version in METADATA_VERSIONS:
        levels = default_levels(version.level)
        assert [need for name in levels for need in unmet_dependencies(name, levels[name], levels)] == []


def test_levels_that_changed_records() -> None:
    """As listed in Kafka's MetadataVersion."""
    brought = [
        version.level for version in METADATA_VERSIONS if changes_records(version.level, version.level - 1)
    ]
    assert brought == [23, 30, 32, 33]
    assert changes_records(33, 21)
    assert not changes_records(29, 23)
    assert not changes_records(23, 25)


def test_metadata_version_of_a_level() -> None:
    assert str(metadata_version_for_level(27)) == "4.1-IV1"
    assert metadata_version_for_level(1000) is None
