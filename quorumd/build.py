"""Whether this build has compiled modules (scripts/build_backend.py) or only the sources."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def is_compiled() -> bool:
    """Whether the packages on the hot path are compiled to machine code."""
    engine = Path(__file__).parent / "raft" / "engine"
    return any(engine.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)


def description() -> str:
    """`compiled` or `interpreted`, as shown by `--version` and in the first log line of a daemon."""
    return "compiled" if is_compiled() else "interpreted"
