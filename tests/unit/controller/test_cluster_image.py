from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import METADATA_VERSION, ClusterImage, Resource
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord

GROUP: Resource = (int(ConfigResourceType.GROUP), "g")


@pytest.fixture
def image() -> ClusterImage:
    image = ClusterImage()
    image.set_config(GROUP, "list", "a,b", [])
    image.set_config(GROUP, "kept", "1", [])
    return image


def test_apply_records(image: ClusterImage) -> None:
    image.apply(ConfigRecord(*GROUP, "kept", "2"), [])
    image.apply(ConfigRecord(*GROUP, "list", None), [])
    image.apply(FeatureLevelRecord(METADATA_VERSION, 25), [])
    assert image.config(GROUP) == {"kept": "2"}
    assert image.features == {METADATA_VERSION: 25}


def test_record_types_without_state_change_nothing(image: ClusterImage) -> None:
    before = image.fingerprint()
    changes: list[UndoEntry] = []
    image.apply(NoOpRecord(), changes)
    assert changes == []
    assert image.fingerprint() == before


def test_changes_are_undone_newest_first(image: ClusterImage) -> None:
    before = image.fingerprint()
    records = [
        ConfigRecord(*GROUP, "kept", "2"),
        ConfigRecord(*GROUP, "kept", None),
        ConfigRecord(*GROUP, "kept", None),
        ConfigRecord(*GROUP, "new", "3"),
        ConfigRecord(int(ConfigResourceType.BROKER), "1", "new", "4"),
        FeatureLevelRecord(METADATA_VERSION, 24),
        FeatureLevelRecord(METADATA_VERSION, 25),
    ]
    changes: list[UndoEntry] = []
    for record in records:
        image.apply(record, changes)
    assert image.fingerprint() != before
    undo(reversed(changes))
    assert image.fingerprint() == before


def test_reading_an_unknown_resource_leaves_no_trace(image: ClusterImage) -> None:
    for number in range(10):
        assert image.config((int(ConfigResourceType.GROUP), str(number))) == {}
    assert list(image.configs) == [GROUP]


def test_fingerprint_is_independent_of_history(image: ClusterImage) -> None:
    other = ClusterImage()
    other.set_config(GROUP, "kept", "0", [])
    other.set_config((4, "9"), "gone", "0", [])
    other.set_config((4, "9"), "gone", None, [])
    other.set_config(GROUP, "list", "a,b", [])
    other.set_config(GROUP, "kept", "1", [])
    assert other.fingerprint() == image.fingerprint()
