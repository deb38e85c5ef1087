from __future__ import annotations

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import records_of
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord


def test_features_come_first_and_everything_is_in_order() -> None:
    image = ClusterImage()
    image.set_config((32, "g"), "b", "2", [])
    image.set_config((32, "g"), "a", "", [])
    image.set_config((4, ""), "z", "1", [])
    image.set_config((4, "1"), "gone", "1", [])
    image.set_config((4, "1"), "gone", None, [])
    image.apply(FeatureLevelRecord("metadata.version", 25), [])
    image.apply(FeatureLevelRecord("group.version", 1), [])
    assert list(records_of(image)) == [
        FeatureLevelRecord("group.version", 1),
        FeatureLevelRecord("metadata.version", 25),
        ConfigRecord(4, "", "z", "1"),
        ConfigRecord(32, "g", "a", ""),
        ConfigRecord(32, "g", "b", "2"),
    ]


def test_what_is_not_in_the_image_would_be_lost() -> None:
    image = ClusterImage()
    assert image.loses(DelegationTokenRecord("t"))
    assert not image.loses(ConfigRecord(4, "", "z", "1"))
    assert not image.loses(FeatureLevelRecord("group.version", 1))
    assert not image.loses(NoOpRecord())
    assert not image.loses(BeginTransactionRecord())
