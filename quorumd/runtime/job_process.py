"""The main program of a subprocess job, `python -m quorumd.runtime.job_process`, which `subprocess_job` starts.

Standard input has the pickled job, then bytes that are each a new duty cycle in percent. Its end means that the node
is gone, and ends this process. The process writes a pickled pair to standard output: the outcome, and a warning for
the node to log, or None.
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

LOWEST_PRIORITY = 19
"""The largest nice value."""
WORK_SLICE_S = 0.004
"""CPU time between two pauses. CPU timers have about this resolution."""


def main() -> None:
    """Run the job and write its outcome."""
    # The terminal sends these signals to the node and to this process; only the node handles them.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    warning = lower_priority()
    # The process ends with its job, so collecting cycles among millions of objects is wasted work.
    gc.disable()
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    # What the job prints must not be mixed with the outcome.
    sys.stdout = sys.stderr
    try:
        job = pickle.load(stdin)
    except EOFError:
        # The node ended before it sent the job.
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
    # A normal exit would wait for the thread that reads standard input.
    os._exit(0)


def lower_priority() -> str | None:
    """Lower the scheduling priority of the process as far as possible. Returns a warning to log, or None."""
    warning = None
    try:
        os.nice(LOWEST_PRIORITY)
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
    """Pauses this process after every `WORK_SLICE_S` of CPU time, so that it works for `duty_cycle` of the time.

    Even at the lowest priority, a process that never pauses slows down the other hardware threads of its core and
    evicts other processes' data from the caches.
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
