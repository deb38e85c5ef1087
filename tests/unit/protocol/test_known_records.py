"""Records that cannot be applied are found by offset without decoding them."""

from __future__ import annotations

import pytest

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol import messages
from quorumd.protocol.apis import record_class
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.known_records import check_known
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.metadata_record import FRAME_VERSION, encode_record
from quorumd.protocol.record_batch import encode_batch

CONFIG = encode_record(ConfigRecord(32, "g", "c", "v"), 0)


def check(*frames: bytes) -> None:
    data = encode_batch(70, 3, 1000, list(frames))
    (header,) = headers(data)
    check_known(data, header)


def test_every_version_of_every_record_is_known() -> None:
    for api_key in messages.RECORDS:
        for version in record_class(api_key).DECODE:
            check(bytes((FRAME_VERSION, api_key, version)))


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"\x01\x63\x00\x00", "at offset 72: unknown metadata record type 99"),
        (b"\x01\x84\x01\x00\x00", "at offset 72: unknown metadata record type 132"),
        (b"\x01\x04\x07\x00", "at offset 72: ConfigRecord v7 is unknown; known versions: 0 to 0"),
    ],
)
def test_record_of_a_later_version_is_reported_with_its_offset(frame: bytes, text: str) -> None:
    with pytest.raises(UnsupportedVersion, match=text):
        check(CONFIG, CONFIG, frame, CONFIG)


@pytest.mark.parametrize("frame", [b"", b"\x02\x04\x00", b"\x01\x04"])
def test_malformed_record_is_reported_with_its_offset(frame: bytes) -> None:
    with pytest.raises(MalformedMessage, match="at offset 71"):
        check(CONFIG, frame)
