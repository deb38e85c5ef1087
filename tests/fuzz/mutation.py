"""A seeded mutator, which derives hostile inputs from valid inputs with wrong lengths, varints and repeated blocks.

    Mutator(random, corpus, tokens).next_input()

The same seed gives the same inputs. `tokens` are pieces of the target's own language, which targets that parse text
provide; targets without tokens get more wrong bytes and lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

USUAL_LIMIT = 64 * 1024
"""The maximum size of an input, except of large inputs."""
LARGE_LIMIT = 1 << 20
"""The maximum size of a large input."""

_BYTES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_WIDTHS = (1, 2, 4, 4, 8)
_BOMBS = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\xff" * 9 + b"\x01",
    b"\x80" * 4 + b"\x00",
    b"\xff" * 16,
    b"\x80" * 64,
    b"\xff\xff\xff\x07",
    b"\x80\x80\x04",
    b"\xff\x7f",
)
_DIGITS = b"0123456789"


class Mutator:
    """Derives inputs from a corpus.

    `mend` repairs the checksums of a mutated input, which would otherwise be rejected before it is parsed.
    """

    def __init__(
        self,
        random: Random,
        corpus: Sequence[bytes],
        tokens: Sequence[bytes] = (),
        mend: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._random = random.random
        self._bytes = random.randbytes
        self._corpus = corpus
        self._tokens = tokens
        self._mend = mend
        self._steps = (
            self._flip_bit,
            self._set_byte,
            self._set_byte,
            self._lie_about_length,
            self._lie_about_length,
            self._nudge,
            self._bomb,
            self._truncate,
            self._delete,
            self._repeat,
            self._insert_noise,
            self._splice,
            self._insert_token if tokens else self._set_byte,
            self._grow_number if tokens else self._lie_about_length,
        )

    def next_input(self) -> bytes:
        """Return a mutated input; a few inputs are random bytes, and a few are unchanged."""
        kind = self._random()
        if kind < 0.005:
            return self._bytes(self._below(200))
        data = bytearray(self._choice(self._corpus))
        if kind < 0.01:
            return bytes(data)
        self._change(data)
        while self._random() < 0.5:
            self._change(data)
        return self._finished(data[:USUAL_LIMIT])

    def large_input(self) -> bytes:
        """Return an input of up to LARGE_LIMIT bytes: a small input with a repeated block, mostly with its count."""
        data = bytearray(self._choice(self._corpus))
        if data and self._random() < 0.5:
            self._change(data)
        start = self._below(len(data))
        block = bytes(data[start : start + 1 + self._below(self._choice((2, 40, 4000)))]) or b"\x01"
        times = self._below(LARGE_LIMIT) // len(block)
        if start >= 4 and self._random() < 0.7:
            # Write the number of repetitions as the count before the block.
            count = min(times, 0x3FFF)
            data[start - 2 : start] = (count & 0x7F | 0x80, count >> 7)
        data[start:start] = block * times
        return self._finished(data[:LARGE_LIMIT])

    def _finished(self, data: bytearray) -> bytes:
        if self._mend is not None and self._random() < 0.7:
            return self._mend(bytes(data))
        return bytes(data)

    def _change(self, data: bytearray) -> None:
        self._choice(self._steps)(data)

    def _below(self, bound: int) -> int:
        return int(self._random() * bound)

    def _choice(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def _flip_bit(self, data: bytearray) -> None:
        if data:
            data[self._below(len(data))] ^= 1 << self._below(8)

    def _set_byte(self, data: bytearray) -> None:
        if data:
            data[self._below(len(data))] = self._choice(_BYTES)

    def _lie_about_length(self, data: bytearray) -> None:
        """Overwrite an integer by a limit of its type, or by a number close to the remaining length."""
        width = self._choice(_WIDTHS)
        if len(data) < width:
            return
        at = self._below(len(data) - width + 1)
        bits = 8 * width
        left = len(data) - at
        value = self._choice(
            (
                0,
                1,
                -1,
                -2,
                (1 << bits - 1) - 1,
                -(1 << bits - 1),
                left,
                left - width,
                left + 1,
                0x7FFF,
                1 << 24,
            )
        )
        data[at : at + width] = (value & (1 << bits) - 1).to_bytes(width, "big")

    def _nudge(self, data: bytearray) -> None:
        if data:
            at = self._below(len(data))
            data[at] = data[at] + self._choice((1, -1, 2, -2, 16)) & 0xFF

    def _bomb(self, data: bytearray) -> None:
        """Insert a varint that is too long, or too large for the bytes that follow."""
        bomb = self._choice(_BOMBS)
        at = self._below(len(data) + 1)
        data[at : at + self._below(len(bomb) + 1)] = bomb

    def _truncate(self, data: bytearray) -> None:
        del data[self._below(len(data) + 1) :]

    def _delete(self, data: bytearray) -> None:
        at = self._below(len(data) + 1)
        del data[at : at + 1 + self._below(16)]

    def _repeat(self, data: bytearray) -> None:
        at = self._below(len(data) + 1)
        block = data[at : at + 1 + self._below(self._choice((2, 16, 200)))]
        data[at:at] = block * (1 + self._below(self._choice((2, 8, 60))))

    def _insert_noise(self, data: bytearray) -> None:
        at = self._below(len(data) + 1)
        data[at:at] = self._bytes(1 + self._below(8))

    def _splice(self, data: bytearray) -> None:
        """Replace the end of the input by the end of another input."""
        other = self._choice(self._corpus)
        data[self._below(len(data) + 1) :] = other[self._below(len(other) + 1) :]

    def _insert_token(self, data: bytearray) -> None:
        token = self._choice(self._tokens)
        at = self._below(len(data) + 1)
        times = 1 if self._random() < 0.9 else 1 + self._below(6000 // len(token) + 1)
        data[at : at + self._below(2) * len(token)] = token * times

    def _grow_number(self, data: bytearray) -> None:
        """Insert one or thousands of digits, or other characters, into a number."""
        places = [at for at, byte in enumerate(data[:400]) if byte in _DIGITS]
        if places:
            at = self._choice(places)
            data[at:at] = self._choice((b"9", b"-", b"0", b"99999999999", b"7" * 5000, b".", b"e9"))
