"""Whether this version knows every metadata record of a batch, told without decoding them.

What is not known cannot be applied: a node that took it into its log could never go on.
"""

from __future__ import annotations

from functools import cache

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.protocol import messages
from quorumd.protocol.apis import record_class
from quorumd.protocol.metadata_record import FRAME_VERSION, decode_frame
from quorumd.protocol.record_batch import BatchHeader, values

_HEAD_SIZE = 3
"""Frame version, type and version, of every record that there is."""


@cache
def _known_heads() -> frozenset[bytes]:
    return frozenset(
        bytes((FRAME_VERSION, api_key, version))
        for api_key in messages.RECORDS
        for version in record_class(api_key).DECODE
    )


def check_known(data: bytes, header: BatchHeader) -> None:
    """Check a data batch that is whole in `data`.

    Raises UnsupportedVersion for a record whose type or version is not known, MalformedMessage for what is no record,
    both with its offset.
    """
    known = _known_heads()
    offset = header.base_offset
    try:
        for value in values(data, header):
            if value[:_HEAD_SIZE] not in known:
                decode_frame(value)
            offset += 1
    except UnsupportedVersion as error:
        raise UnsupportedVersion(f"at offset {offset}: {error}") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"at offset {offset}: {error}") from None
