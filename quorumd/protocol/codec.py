"""Encoding and decoding of messages, with errors that name the message and version.

The input is `bytes`, since decoding from a memoryview is slower: slice a frame out once. Fields of type bytes and
records are slices of it. Positions in errors count from the start of `data`, not from `position`.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any, TypeVar

from quorumd.errors import MalformedMessage, QuorumdError, UnsupportedVersion
from quorumd.protocol.wire import Message

M = TypeVar("M", bound=Message)


def encode(message: Message, version: int) -> bytes:
    """Encode a message in one version.

    Raises UnsupportedVersion if the version is unknown or cannot carry a field that is set, ValueError
    if a value does not fit its type.
    """
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Encode a message as `encode` does, but append it to `out`, which is unchanged after an error. Raises the errors
    of `encode`."""
    start = len(out)
    try:
        encoder = message.ENCODE[version]
    except KeyError:
        raise _unknown_version(type(message), version) from None
    try:
        encoder(message, out)
    except UnsupportedVersion as error:
        del out[start:]
        raise UnsupportedVersion(f"{message.NAME} v{version} {error}") from None
    except (struct.error, ValueError) as error:
        del out[start:]
        raise ValueError(f"{message.NAME} v{version}: {error}") from error


def encode_in_steps(message: Message, version: int, out: bytearray) -> Generator[None, None, None]:
    """Encode as `encode_into` does, one step per array element, a message with ENCODE_IN_STEPS.

    Raises the errors of `encode`, after which `out` must be discarded.
    """
    try:
        yield from message.ENCODE_IN_STEPS[version](message, out)
    except UnsupportedVersion as error:
        raise UnsupportedVersion(f"{message.NAME} v{version} {error}") from None
    except (struct.error, ValueError) as error:
        raise ValueError(f"{message.NAME} v{version}: {error}") from error


def decode(message_class: type[M], version: int, data: bytes, position: int = 0) -> M:
    """Decode the message that fills `data` from `position` to its end.

    Raises MalformedMessage for anything else, with the position of the fault, MessageTooLarge if its elements would
    take too much memory (`primitives.check_memory`), UnsupportedVersion if the version is unknown.
    """
    try:
        message: M
        message, end, _ = message_class.DECODE[version](data, position)
    except (KeyError, MalformedMessage, IndexError, struct.error) as error:
        raise _decoding_error(message_class, version, data, error) from None
    if end != len(data):
        raise MalformedMessage(
            f"{message_class.NAME} v{version} ends at byte {end}, but {len(data) - end} bytes follow it"
        )
    return message


def decode_prefix(message_class: type[M], version: int, data: bytes, position: int = 0) -> tuple[M, int, int]:
    """Decode a message that may be followed by more bytes. Raises the errors of `decode`.

    Returns the message, the position after it, and the estimated memory of its array elements in bytes, which may be
    forty times their encoded size.
    """
    try:
        return message_class.DECODE[version](data, position)
    except (KeyError, MalformedMessage, IndexError, struct.error) as error:
        raise _decoding_error(message_class, version, data, error) from None


def decode_in_steps(
    message_class: type[Message], version: int, data: bytes, position: int
) -> Generator[int, None, tuple[Any, int, int]]:
    """Decode as `decode_prefix` does, one step per array element, a message with DECODE_IN_STEPS.

    Yields the memory of the arrays whose counts have been read. Raises the errors of `decode`."""
    try:
        return (yield from message_class.DECODE_IN_STEPS[version](data, position))
    except (MalformedMessage, IndexError, struct.error) as error:
        raise _decoding_error(message_class, version, data, error) from None


def _decoding_error(message_class: type[M], version: int, data: bytes, error: Exception) -> QuorumdError:
    if isinstance(error, KeyError):
        return _unknown_version(message_class, version)
    name = f"{message_class.NAME} v{version}"
    if isinstance(error, MalformedMessage):
        return type(error)(f"{name}: {error}")
    return MalformedMessage(f"{name}: the data ends at byte {len(data)}, before the end of the message")


def _unknown_version(message_class: type[Message], version: int) -> UnsupportedVersion:
    first, last = message_class.MIN_VERSION, message_class.MAX_VERSION
    return UnsupportedVersion(
        f"{message_class.NAME} v{version} is unknown; known versions: {first} to {last}"
    )
