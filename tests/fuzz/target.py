"""A fuzz target: a parser, a corpus of valid inputs, and the errors that the parser may raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Parse = Callable[[bytes], object]
"""Parses one input and asserts what must hold for the result. Any error that is not allowed, such as an
AssertionError, is a finding."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parser and its inputs."""

    name: str
    share: float
    """The share of the inputs of a campaign, relative to the other targets."""
    corpus: Callable[[], Sequence[bytes]]
    make: Callable[[], Parse]
    """Creates the parser, for every block of inputs and after every finding; state is not kept any longer."""
    allowed: tuple[type[Exception], ...]
    tokens: tuple[bytes, ...] = ()
    """See `Mutator`."""
    mend: Callable[[bytes], bytes] | None = None
    """See `Mutator`."""
    takes_large: bool = True
    """Whether some inputs are large."""
    repeats: bool = True
    """Whether an input can be repeated; False if the result depends on earlier inputs."""
