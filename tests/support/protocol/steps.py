"""Runs work that is divided into steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def run_steps(steps: Generator[object, None, T]) -> tuple[int, T]:
    """Run all steps; return their number and the result."""
    taken = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return taken, end.value
        taken += 1
