"""Check that every metadata record of a batch is known, without decoding the records.

An unknown record cannot be applied, so a node that had appended it to its log could not continue.
"""

from __future__ import annotations

from functools import cache

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol import messages
from quorumd.protocol.apis import record_class
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.metadata_record import FRAME_VERSION, HEAD_SIZE, decode_frame
from quorumd.protocol.record_batch import values


@cache
def _known_heads() -> frozenset[bytes]:
    return frozenset(
        bytes((FRAME_VERSION, api_key, version))
        for api_key in messages.RECORDS
        for version in record_class(api_key).DECODE
    )


def check_known(data: bytes, header: BatchHeader) -> None:
    """Check the records of a data batch that is whole in `data`.

    Raises UnsupportedVersion for an unknown record type or version, MalformedMessage for bytes that are not a record;
    both name the offset.
    """
    known = _known_heads()
    offset = header.base_offset
    try:
        for value in values(data, header):
            if value[:HEAD_SIZE] not in known:
                decode_frame(value)
            offset += 1
    except UnsupportedVersion as error:
        raise UnsupportedVersion(f"at offset {offset}: {error}") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"at offset {offset}: {error}") from None
