"""Whether this is a wheel with compiled modules in it (scripts/build_backend.py) or the sources alone."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def is_compiled() -> bool:
    """Whether the hot packages run as machine code."""
    engine = Path(__file__).parent / "raft" / "engine"
    return any(engine.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)


def description() -> str:
    """`compiled` or `interpreted`, as shown in versions and start lines."""
    return "compiled" if is_compiled() else "interpreted"
