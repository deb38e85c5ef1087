"""The simulated seeds that reach a line, as recorded by `python -m tests.simulation.reached_branches`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.covered_lines import ROOT, digest, name_of

FILE = ROOT / "build" / "reached" / "seeds.json"


@dataclass(frozen=True, slots=True)
class ReachedSeeds:
    """The measured seeds."""

    count: int
    """The maximum number of seeds per mutation."""
    seconds: Mapping[int, float] = field(default_factory=dict)
    """CPU seconds by seed."""
    lines: Mapping[str, Mapping[str, list[int]]] = field(default_factory=dict)
    """The seeds that reach each line, by path below the root and line number."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Digests of the measured files by path below the root."""

    @classmethod
    def load(cls, count: int, path: Path = FILE) -> ReachedSeeds:
        """Load the measured seeds. Raises FileNotFoundError if nothing was measured."""
        document = json.loads(path.read_text())
        seconds = {int(seed): value for seed, value in document["seconds"].items()}
        return cls(count, seconds, document["lines"], document["digests"])

    def cheapest(self, path: Path, lines: tuple[int, int], root: Path = ROOT) -> list[tuple[int, float]]:
        """Return the `count` cheapest seeds that reach one of the lines, with their seconds."""
        ordered = sorted((self.seconds[seed], seed) for seed in self.seeds_of(path, lines, root))
        return [(seed, seconds) for seconds, seed in ordered[: self.count]]

    def seeds_of(self, path: Path, lines: tuple[int, int], root: Path = ROOT) -> set[int]:
        """Return the seeds that reach one of the lines, or all seeds if the file has changed since then."""
        name = name_of(root, path)
        if self.digests.get(name) != digest(path):
            return set(self.seconds)
        first, last = lines
        by_line = self.lines.get(name, {})
        return {seed for line in range(first, last + 1) for seed in by_line.get(str(line), ())}

    def is_current(self, root: Path = ROOT) -> bool:
        """Return True if no measured file has changed since it was measured."""
        return all(digest(root / name) == found for name, found in self.digests.items())
