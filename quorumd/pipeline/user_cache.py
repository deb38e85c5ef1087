"""The directory in which the pipeline caches files that take long to create."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return `quorumd` in XDG_CACHE_HOME, or in ~/.cache if that is not set."""
    base = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", "~"), ".cache")
    return Path(base).expanduser() / "quorumd"
