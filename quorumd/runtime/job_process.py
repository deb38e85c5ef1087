"""The process of a job that runs apart: `python -m quorumd.runtime.job_process`. `job_apart` is the other side.

The pickled job comes on standard input, which stays open. A byte on it is a new duty cycle, in percent; its end means
that the node is gone, and ends this process. The pickled outcome goes to standard output, with what the node should
log (None for nothing).
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import time
from threading import Thread
from typing import IO

from quorumd.ports import MIN_DUTY_CYCLE

MIN_PRIORITY = 19
WORK_SLICE_S = 0.004
"""Of processor time, until the next pause. Timers of processor time tick no faster than this."""


def main() -> None:
    """Run the job and write what came of it."""
    # Ctrl-C in the node's terminal is for the node, and so is its end.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    warning = lower_priority()
    # The process ends with its job: looking for cycles among millions of objects would be for nothing.
    gc.disable()
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    # What a job prints is no part of the outcome.
    sys.stdout = sys.stderr
    try:
        job = pickle.load(stdin)
    except EOFError:
        # The node was gone before it could say what to do.
        os._exit(1)
    throttle = Throttle()
    Thread(target=_read_duty_cycles, args=(stdin, throttle), daemon=True).start()

    from quorumd.runtime.disk import OsDisk

    try:
        outcome = job(OsDisk(lambda callback: callback()))
    except Exception as error:
        outcome = error
    stdout.write(_pickled(outcome, warning))
    stdout.flush()
    # Not through the interpreter's own end, which would wait for the thread that holds standard input.
    os._exit(0)


def lower_priority() -> str | None:
    """Run only when nobody else wants to, as far as the system can tell. Returns what is to be logged."""
    warning = None
    try:
        os.nice(MIN_PRIORITY)
    except OSError as error:
        warning = (
            f"the process that builds snapshots cannot lower its priority ({error.strerror}) and competes "
            "with the node; allow the system call setpriority, as config/quorumd.service does"
        )
    for name in ("SCHED_IDLE", "SCHED_BATCH"):
        if hasattr(os, name):
            try:
                os.sched_setscheduler(0, getattr(os, name), os.sched_param(0))
                break
            except OSError:
                continue
    return warning


class Throttle:
    """Pauses this process after every `WORK_SLICE_S` of work, so that it works `duty_cycle` of the time.

    However low its priority, a process that computes without pause slows down those on the other threads of its core,
    and who wakes up finds its caches cold.
    """

    def __init__(self) -> None:
        self.duty_cycle = MIN_DUTY_CYCLE
        signal.signal(signal.SIGPROF, self._pause)
        signal.setitimer(signal.ITIMER_PROF, WORK_SLICE_S, WORK_SLICE_S)

    def _pause(self, signum: int, frame: object) -> None:
        if self.duty_cycle < 1.0:
            time.sleep(WORK_SLICE_S / self.duty_cycle - WORK_SLICE_S)


def _read_duty_cycles(stdin: IO[bytes], throttle: Throttle) -> None:
    while percent := stdin.read(1):
        throttle.duty_cycle = max(MIN_DUTY_CYCLE, percent[0] / 100)
    os._exit(1)


def _pickled(outcome: object, warning: str | None) -> bytes:
    try:
        output = pickle.dumps((outcome, warning))
        pickle.loads(output)
    except Exception:
        return pickle.dumps((OSError(f"{type(outcome).__name__}: {outcome}"), warning))
    return output


if __name__ == "__main__":
    main()
