"""Streams that are killed over and over while their log grows, and what is in their tables at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.log_generator import LogShape, chunks
from tests.pipeline.stream_kills.job import OFFSETS_A_BATCH

BATCHES_A_RUN = 3
"""Micro-batches that the log grows by before each run: so many moments of a kind to die at."""
RUN_TIMEOUT_S = 600
"""Many times what a run takes on a machine that is not busy."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A run that dies at a stage of `job.STAGES`, the first `after` of which it survives."""

    stage: str
    after: int


@dataclass(slots=True)
class Lane:
    """A stream, and the log that it follows: more of it is there at each run, cut at any byte."""

    folder: Path
    sink: str
    kills: Sequence[Kill]
    said: dict[str, Any] = field(default_factory=dict)
    killed: int = 0
    end_offset: int = 0

    def run(self, tell: Callable[[str], None] = lambda text: None) -> None:
        """To the end. Raises AssertionError for a run that ends in another way than it should."""
        data, self.end_offset = _log_of((len(self.kills) + 1) * BATCHES_A_RUN * OFFSETS_A_BATCH)
        for number, kill in enumerate([*self.kills, None]):
            self._grow(data, (number + 1) * len(data) // (len(self.kills) + 1))
            code, out, err = self._start(kill)
            if kill is None:
                assert code == 0, err
                self.said = json.loads(out)
            elif code == -signal.SIGKILL:
                self.killed += 1
            else:
                # It had nothing left to do before that moment came.
                assert code == 0, err
            tell(f"{self.sink}: {kill or 'to the end'}: {'killed' if code else 'done'}")

    def check(self) -> None:
        """Every offset is there, once."""
        expected = {"rows": self.end_offset, "distinct": self.end_offset, "end": self.end_offset}
        assert self.said == expected, f"{self.sink}: {self.said}, expected {expected}"

    def _grow(self, data: bytes, size: int) -> None:
        segment = self.folder / "log" / f"{0:020d}.log"
        segment.parent.mkdir(parents=True, exist_ok=True)
        with segment.open("ab") as stream:
            stream.write(data[stream.tell() : size])

    def _start(self, kill: Kill | None) -> tuple[int, str, str]:
        told = {"log": str(self.folder / "log"), "to": str(self.folder / "to"), "sink": self.sink}
        if kill is not None:
            told |= {"stage": kill.stage, "after": kill.after}
        # What it leaves when it is killed goes with the test's folder.
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        places = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.stream_kills.job", json.dumps(told)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A group of its own, which it kills as one.
            start_new_session=True,
            env=os.environ | places | {"PYTHONPATH": str(Path(__file__).parents[3])},
        )
        try:
            out, err = child.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            raise
        return child.returncode, out, err


def _log_of(records: int) -> tuple[bytes, int]:
    found = list(chunks(LogShape(records=records, epoch_records=records // 3)))
    return b"".join(chunk.data for chunk in found), found[-1].end_offset
