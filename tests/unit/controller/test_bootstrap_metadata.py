from __future__ import annotations

import pytest

from quorumd.controller.bootstrap_metadata import (
    check_levels,
    feature_levels_from,
    feature_records,
    initial_feature_levels,
)
from quorumd.controller.cluster_image import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION
from quorumd.controller.metadata_versions import default_levels


def test_new_cluster_gets_the_newest_release_by_default() -> None:
    assert initial_feature_levels(None, {}) == default_levels(33)
    assert initial_feature_levels("4.1", {}) == default_levels(27)
    assert initial_feature_levels(None, {METADATA_VERSION: 24}) == default_levels(24)


def test_named_feature_overrides_the_release() -> None:
    levels = initial_feature_levels("4.0", {ELR_VERSION: 1, "transaction.version": 0, KRAFT_VERSION: 1})
    assert levels == default_levels(25) | {ELR_VERSION: 1, "transaction.version": 0}


@pytest.mark.parametrize(
    ("release", "features", "reason"),
    [
        ("4.1", {METADATA_VERSION: 25}, "cannot be combined"),
        ("5.0", {}, "unknown release version '5.0'.*3.9-IV0"),
        (None, {"new.version": 1}, "unknown feature 'new.version'"),
        (None, {"group.version": 2}, "group.version 2 is not supported.*0 to 1"),
        (None, {METADATA_VERSION: 34}, "metadata.version 34 is not supported.*21 to 33"),
        ("3.9", {ELR_VERSION: 1}, f"{ELR_VERSION} 1 needs metadata.version 23 or higher, not 21"),
        (None, {KRAFT_VERSION: 0}, "kraft.version 0 is not supported"),
    ],
)
def test_impossible_feature_levels_are_rejected(
    release: str | None, features: dict[str, int], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        initial_feature_levels(release, features)


def test_records_start_with_metadata_version_and_omit_disabled_features() -> None:
    """In the order of `kafka-storage format`; kraft.version is in the voter records."""
    records = feature_records(initial_feature_levels("4.0", {}))
    assert [(record.name, record.feature_level) for record in records] == [
        (METADATA_VERSION, 25),
        ("group.version", 1),
        ("transaction.version", 2),
    ]
    assert feature_levels_from(records) == {
        METADATA_VERSION: 25,
        "group.version": 1,
        "transaction.version": 2,
    }


def test_levels_without_a_metadata_version_are_rejected() -> None:
    with pytest.raises(ValueError, match=METADATA_VERSION):
        check_levels({KRAFT_VERSION: 1})
