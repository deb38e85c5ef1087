"""The process of a job that runs apart: `python -m quorumd.runtime.apart`. `job_apart` is the other side.

The pickled job comes on standard input, which stays open: its end means that the node is gone, and ends this process.
The pickled outcome goes to standard output.
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

LOWEST_PRIORITY = 19
WORK_S, REST_S = 0.004, 0.036
"""Of processor time, and of rest behind it. Timers of processor time tick no faster than this."""


def main() -> None:
    """Run the job and write what came of it."""
    # Ctrl-C in the node's terminal is for the node.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lower_priority()
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
    take_rests()
    Thread(target=_end_with, args=(stdin,), daemon=True).start()

    from quorumd.runtime.disk import OsDisk

    try:
        outcome = job(OsDisk(lambda callback: callback()))
    except Exception as error:
        outcome = error
    stdout.write(_pickled(outcome))
    stdout.flush()
    # Not through the interpreter's own end, which would wait for the thread that holds standard input.
    os._exit(0)


def lower_priority() -> None:
    """Run only when nobody else wants to, as far as the system can tell."""
    os.nice(LOWEST_PRIORITY)
    for name in ("SCHED_IDLE", "SCHED_BATCH"):
        if hasattr(os, name):
            try:
                os.sched_setscheduler(0, getattr(os, name), os.sched_param(0))
                return
            except OSError:
                continue


def take_rests() -> None:
    """Work a tenth of the time. However low its priority, a process that computes without pause slows down those on
    the other threads of its core, and who wakes up finds its caches cold; and nobody waits for this one."""
    signal.signal(signal.SIGPROF, lambda signum, frame: time.sleep(REST_S))
    signal.setitimer(signal.ITIMER_PROF, WORK_S, WORK_S)


def _end_with(stdin: IO[bytes]) -> None:
    stdin.read(1)
    os._exit(1)


def _pickled(outcome: object) -> bytes:
    try:
        answer = pickle.dumps(outcome)
        pickle.loads(answer)
    except Exception:
        return pickle.dumps(OSError(f"{type(outcome).__name__}: {outcome}"))
    return answer


if __name__ == "__main__":
    main()
