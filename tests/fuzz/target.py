"""A fuzz target: a parser, valid inputs to start from, and the errors that it may raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Parse = Callable[[bytes], object]
"""Takes one input. Returns, or raises one of the allowed errors; everything else is a finding, and so is an
AssertionError: what must hold of a parsed input is asserted there."""


@dataclass(frozen=True, slots=True)
class Target:
    """`make` is called for every block of inputs: what a target remembers, it remembers within one block.

    `share`: how many inputs of a campaign it gets, relative to the other targets. `mend`: see `Mutator`.
    `repeats` is false where an input leaves something behind, so that it cannot be tried again by itself.
    """

    name: str
    share: float
    corpus: Callable[[], Sequence[bytes]]
    make: Callable[[], Parse]
    allowed: tuple[type[Exception], ...]
    tokens: tuple[bytes, ...] = ()
    mend: Callable[[bytes], bytes] | None = None
    takes_large: bool = True
    repeats: bool = True
