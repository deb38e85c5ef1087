"""An image equals the image of its snapshot records after any changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import snapshot_records
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.metadata_record import decode_record, encode_record

names = st.text(max_size=3)
records = st.one_of(
    st.builds(ConfigRecord, st.sampled_from([2, 4, 16, 32]), names, names, st.none() | st.text(max_size=9)),
    st.builds(FeatureLevelRecord, names, st.integers(0, 2**15 - 1)),
)


@given(st.lists(records, max_size=30))
def test_image_records_round_trip(written: list[ConfigRecord | FeatureLevelRecord]) -> None:
    image, again = ClusterImage(), ClusterImage()
    for record in written:
        image.apply(record, [])
    for record in snapshot_records(image):
        again.apply(decode_record(encode_record(record, 0)), [])
    assert (again.fingerprint(), again.hash) == (image.fingerprint(), image.hash)
    assert list(snapshot_records(again)) == list(snapshot_records(image))
