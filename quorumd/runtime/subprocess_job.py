"""Runs a job in a subprocess: starts it, waits for it on a thread, and kills it when the node stops.

The subprocess runs `quorumd.runtime.job_process`. The job and its outcome are pickled and sent through pipes. If the
node dies, the subprocess exits because its standard input is closed.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from errno import ECHILD
from functools import partial
from threading import Lock, Thread
from typing import IO, Any

from quorumd.ports import MIN_DUTY_CYCLE

logger = logging.getLogger("quorumd.runtime")


class SubprocessJob:
    """Runs one job at a time. `call_threadsafe`: see `DiskOperations`."""

    def __init__(self, call_threadsafe: Callable[[Callable[[], None]], object]) -> None:
        self._call_threadsafe = call_threadsafe
        self._thread: Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._start_lock = Lock()
        self._closed = False
        self._input_lock = Lock()
        self._input: IO[bytes] | None = None
        """Standard input of the process, once the job has been written to it."""
        self._duty_cycle = MIN_DUTY_CYCLE
        self._logged: set[str] = set()

    def run(self, job: Callable[[Any], Any], done: Callable[[Any], None]) -> None:
        """See `ports.Disk.run_in_subprocess`. Raises RuntimeError while another job is running."""
        if self._thread is not None:
            raise RuntimeError("a subprocess job is already running; wait for its result first")
        self._duty_cycle = MIN_DUTY_CYCLE
        self._thread = Thread(
            target=self._work, args=(pickle.dumps(job), done), name="subprocess-job", daemon=True
        )
        self._thread.start()

    def throttle(self, duty_cycle: float) -> None:
        """See `ports.Disk.throttle_subprocess`."""
        if duty_cycle != self._duty_cycle:
            self._duty_cycle = duty_cycle
            self._send_duty_cycle()

    def _send_duty_cycle(self) -> None:
        with self._input_lock:
            if self._input is not None:
                with suppress(OSError):  # The process died; its exit code is reported later.
                    os.write(self._input.fileno(), bytes((round(100 * self._duty_cycle),)))

    def close(self) -> None:
        """Kill the subprocess, if there is one. The `done` of its job may or may not be called."""
        with self._start_lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
        if self._thread is not None:
            self._thread.join()

    def _work(self, job: bytes, done: Callable[[Any], None]) -> None:
        outcome: Any
        try:
            outcome = self._run_job(job)
        except BaseException as error:
            outcome = error
        try:
            self._call_threadsafe(partial(self._ended, done, outcome))
        except RuntimeError:
            return  # The event thread has ended.

    def _ended(self, done: Callable[[Any], None], outcome: Any) -> None:
        self._thread = None
        done(outcome)

    def _run_job(self, job: bytes) -> Any:
        with self._start_lock:
            if self._closed:
                raise OSError(ECHILD, "the node is stopping")
            # Import from the same paths as this process, not from the working directory.
            process = self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "quorumd.runtime.job_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,  # Closing a buffered standard input would fail once the process has died.
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            unsent = memoryview(job)
            with suppress(BrokenPipeError):  # The process died; its exit code is reported below.
                while unsent:
                    unsent = unsent[os.write(process.stdin.fileno(), unsent) :]
            # Standard input stays open, since its end makes the subprocess exit.
            self._input = process.stdin
            self._send_duty_cycle()
            output = process.stdout.read()
            with self._input_lock:
                self._input = None
        self._process = None
        if process.returncode != 0 or not output:
            raise OSError(ECHILD, f"the subprocess died with {_exit_text(process.returncode)}")
        outcome, note = pickle.loads(output)
        if note is not None and note not in self._logged:
            self._logged.add(note)
            logger.warning("%s", note)
        return outcome


def _exit_text(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
