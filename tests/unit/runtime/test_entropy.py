"""The system's random source."""

from quorumd.ids import METADATA_TOPIC_ID, ZERO_UUID, KafkaUuid
from quorumd.runtime.entropy import SystemEntropy


def test_below_stays_below_and_reaches_everything() -> None:
    entropy = SystemEntropy()
    assert {entropy.randrange(3) for _ in range(200)} == {0, 1, 2}
    assert entropy.randrange(1) == 0


def test_uuids_differ_are_not_reserved_and_never_look_like_an_option() -> None:
    entropy = SystemEntropy()
    uuids = {entropy.uuid() for _ in range(1000)}  # one in 64 would begin with '-' without a check
    assert len(uuids) == 1000
    assert not uuids & {ZERO_UUID, METADATA_TOPIC_ID}
    assert not any(str(uuid).startswith("-") for uuid in uuids)
    assert all(KafkaUuid.parse(str(uuid)) == uuid for uuid in uuids)
