"""Runs the jobs of a Spark context in this process. It has no Java process, hence no session and no queries."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyspark import cloudpickle

Run = Callable[[Iterator[Any]], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class LocalJob:
    """A job with a task per slice."""

    slices: list[list[Any]]
    run: Run | None = None

    def mapPartitions(self, run: Run) -> LocalJob:
        return LocalJob(self.slices, run)

    def collect(self) -> list[Any]:
        """Run a copy of the job per task, as workers do."""
        found: list[Any] = []
        for each in self.slices:
            items, run = pickle.loads(cloudpickle.dumps((each, self.run)))
            found.extend(pickle.loads(cloudpickle.dumps(list(run(iter(items))))))
        return found


class LocalContext:
    """Accepts the calls of `history.micro_batches`."""

    defaultParallelism = 2

    def __init__(self) -> None:
        self.tasks: list[int] = []
        """The number of tasks of each job."""

    def parallelize(self, items: Sequence[Any], slices: int) -> LocalJob:
        self.tasks.append(slices)
        bounds = [len(items) * i // slices for i in range(slices + 1)]
        return LocalJob([list(items[low:high]) for low, high in pairwise(bounds)])
