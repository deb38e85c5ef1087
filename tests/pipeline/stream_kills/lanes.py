"""Streams that are killed repeatedly while their log grows, and the resulting tables."""

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
"""The number of micro-batches by which the log grows before each run, so that each stage offers several moments."""
RUN_TIMEOUT_S = 600
"""Many times the duration of a run on an idle machine."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A run that is killed at a stage of `job.STAGES`, after surviving it `after` times."""

    stage: str
    after: int


@dataclass(slots=True)
class Lane:
    """A stream and the log that it follows; the log grows before each run and may be cut at any byte."""

    directory: Path
    sink: str
    kills: Sequence[Kill]
    reported: dict[str, Any] = field(default_factory=dict)
    killed: int = 0
    end_offset: int = 0

    def run(self, report: Callable[[str], None] = lambda text: None) -> None:
        """Run to the end. Raises AssertionError if a run ends unexpectedly."""
        data, self.end_offset = _log_of((len(self.kills) + 1) * BATCHES_A_RUN * OFFSETS_A_BATCH)
        for number, kill in enumerate([*self.kills, None]):
            self._grow(data, (number + 1) * len(data) // (len(self.kills) + 1))
            code, out, err = self._start(kill)
            if kill is None:
                assert code == 0, err
                self.reported = json.loads(out)
            elif code == -signal.SIGKILL:
                self.killed += 1
            else:
                # The run had nothing left to do before this stage.
                assert code == 0, err
            report(f"{self.sink}: {kill or 'to the end'}: {'killed' if code else 'done'}")

    def check(self) -> None:
        """Check that every offset is present once."""
        expected = {"rows": self.end_offset, "distinct": self.end_offset, "end": self.end_offset}
        assert self.reported == expected, f"{self.sink}: {self.reported}, expected {expected}"

    def _grow(self, data: bytes, size: int) -> None:
        segment = self.directory / "log" / f"{0:020d}.log"
        segment.parent.mkdir(parents=True, exist_ok=True)
        with segment.open("ab") as stream:
            stream.write(data[stream.tell() : size])

    def _start(self, kill: Kill | None) -> tuple[int, str, str]:
        options = {"log": str(self.directory / "log"), "to": str(self.directory / "to"), "sink": self.sink}
        if kill is not None:
            options |= {"stage": kill.stage, "after": kill.after}
        # Files left by a killed run are in the test's directory.
        scratch = self.directory / "scratch"
        scratch.mkdir(exist_ok=True)
        places = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.stream_kills.job", json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A process group, so that it can be killed as a whole.
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
