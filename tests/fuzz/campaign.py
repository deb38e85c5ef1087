"""A campaign runs blocks of inputs in worker processes, which measure the time and memory of every input.

A block is BLOCK_INPUTS inputs of one target, which depend only on the seed, the target and the number of the block.
A worker finds inputs that cause

    an exception that is not allowed
    more than MAX_SECONDS of CPU time     measured by a timer; elapsed time depends on the load of the machine
    too much memory                       measured by the growth of the largest resident size, and exactly by
                                          tracemalloc for large inputs and every SAMPLE-th input; the address space
                                          of the process is limited as well

The parent process detects a worker that died, and kills a worker without progress for HANG_SECONDS: the current
input of such a worker is a finding.
"""

from __future__ import annotations

import gc
import logging
import resource
import signal
import sys
import time
import traceback
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawArray
from random import Random
from typing import Any

from tests.fuzz.mutation import LARGE_LIMIT, Mutator
from tests.fuzz.target import Parse, Target

BLOCK_INPUTS = 1000
LARGE_EVERY = 500
SAMPLE = 250
MAX_SECONDS = 1.0
HANG_SECONDS = 60.0
TRACED_IS_SLOWER = 4
MEMORY_FACTOR = 4
MEMORY_BASE = 16 << 20
_ADDRESS_SPACE = 1 << 30
"""The address space limit of a worker, in addition to its initial size: allocated pages that are never touched do
not increase the resident size."""


class TooSlow(BaseException):
    """An input took more than MAX_SECONDS. This is not an Exception, so that no target catches it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that broke a rule."""

    target: str
    block: int
    index: int
    data: bytes
    signature: str
    """The kind and place of the fault: findings with equal signatures probably have the same cause."""
    details: str


@dataclass(slots=True)
class Tally:
    """The results of inputs of a target."""

    inputs: int = 0
    accepted: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    peak_bytes: int = 0
    """The largest memory that tracemalloc measured for an input, less MEMORY_FACTOR times the size of the input."""
    resident_kib: int = 0
    """The result of the last `measure_resident`."""
    findings: list[Finding] = field(default_factory=list)

    def measure_resident(self) -> int:
        """Return the largest resident size of this process so far, in KiB."""
        self.resident_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return self.resident_kib

    def add(self, other: Tally) -> None:
        self.inputs += other.inputs
        self.accepted += other.accepted
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        self.findings += other.findings


def inputs_of(target: Target, seed: int, block: int) -> Iterator[bytes]:
    """Yield the inputs of a block, which are the same in every run."""
    mutator = Mutator(Random(f"{seed} {target.name} {block}"), target.corpus(), target.tokens, target.mend)
    for index in range(BLOCK_INPUTS):
        is_large = target.takes_large and index % LARGE_EVERY == LARGE_EVERY - 1
        yield mutator.large_input() if is_large else mutator.next_input()


def run_block(
    target: Target, seed: int, block: int, count: int = BLOCK_INPUTS, progress: Any = None
) -> Tally:
    """Run the first `count` inputs of a block in this process."""
    tally = Tally()
    began = time.process_time()
    parse = target.make()
    target.corpus()
    _forget_peak()
    tally.measure_resident()
    for index, data in enumerate(inputs_of(target, seed, block)):
        if index == count:
            break
        if progress is not None:
            progress[0], progress[1] = block, index
        is_exact = len(data) > 1 << 16 or index % SAMPLE == SAMPLE - 1
        problem = _run_one(target, parse, data, is_exact, tally)
        if problem is not None:
            tally.findings.append(Finding(target.name, block, index, data, *problem))
            parse = target.make()
            tally.measure_resident()
    tally.seconds = time.process_time() - began
    return tally


def _run_one(
    target: Target, parse: Parse, data: bytes, is_exact: bool, tally: Tally
) -> tuple[str, str] | None:
    """Run an input, and return a signature and details if it broke a rule."""
    tally.inputs += 1
    allowed_bytes = MEMORY_FACTOR * len(data) + MEMORY_BASE
    if is_exact:
        problem, accepted, taken = _traced(target, parse, data)
        tally.peak_bytes = max(tally.peak_bytes, taken - MEMORY_FACTOR * len(data))
        tally.measure_resident()
    else:
        resident = tally.resident_kib
        started = time.process_time()
        problem, accepted = _guarded(target, parse, data, MAX_SECONDS)
        tally.slowest = max(tally.slowest, time.process_time() - started)
        taken = (tally.measure_resident() - resident) * 1024
        if taken > allowed_bytes and target.repeats:
            # The resident size also grows by memory that the allocator retains: repeat with an exact measurement.
            taken = _traced(target, parse, data)[2]
    tally.accepted += accepted
    if problem is None and taken > allowed_bytes:
        return f"memory of {target.name}", f"{len(data)} bytes of input took {taken} bytes of memory"
    return problem


def _traced(target: Target, parse: Parse, data: bytes) -> tuple[tuple[str, str] | None, bool, int]:
    """Do the same as `_guarded`, and also return the peak of the memory in use."""
    tracemalloc.start()
    try:
        problem, accepted = _guarded(target, parse, data, MAX_SECONDS * TRACED_IS_SLOWER)
        return problem, accepted, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _guarded(
    target: Target, parse: Parse, data: bytes, seconds: float
) -> tuple[tuple[str, str] | None, bool]:
    """Run an input, and return its fault or None, and whether it was accepted."""
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            parse(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except target.allowed:
        return None, False
    except (TooSlow, Exception) as error:
        return _described(error), False
    return None, True


def _described(error: BaseException) -> tuple[str, str]:
    frames = traceback.extract_tb(error.__traceback__)
    kind = type(error).__name__
    outside = [frame for frame in frames if frame.filename != __file__] or frames
    ours = [frame for frame in outside if "/quorumd/" in frame.filename] or outside
    if isinstance(error, TooSlow | MemoryError | RecursionError):
        where = _file_name(ours[-1])  # the line number differs between runs
    else:
        where = f"{_file_name(outside[-1])}:{outside[-1].lineno}"
    return f"{kind} at {where}", "".join(traceback.format_exception(error, limit=-12))[-6000:]


def _file_name(frame: traceback.FrameSummary) -> str:
    return frame.filename.rpartition("/")[2]


def _out_of_time(number: int, frame: object) -> None:
    raise TooSlow


def prepare_process(limit_memory: bool = True) -> None:
    """Prepare this process for `run_block`: handle the timer's signal, limit the address space and disable logging.

    Existing objects are exempt from garbage collection, whose time would count as time of a parser.
    """
    gc.freeze()
    signal.signal(signal.SIGPROF, _out_of_time)
    logging.disable(logging.CRITICAL)
    if limit_memory and sys.platform == "linux":
        with open("/proc/self/statm") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        limit = used + _ADDRESS_SPACE + MEMORY_FACTOR * LARGE_LIMIT
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _forget_peak() -> None:
    """Reset the largest resident size where the system supports it, since an earlier peak would hide later peaks."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as clear_refs:
        clear_refs.write("5")


# ---- workers


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    results: Connection[Any, Any]
    blocks: range
    progress: Any
    """Block and index of the worker's current input, in shared memory."""
    seen: tuple[int, int] = (-1, -1)
    since: float = 0.0


def run_target(target: Target, seed: int, blocks: range, jobs: int) -> Tally:
    """Run blocks of a target in `jobs` processes."""
    target.corpus()
    gc.collect()
    gc.freeze()
    total = Tally()
    workers = [_started(target, seed, share) for n in range(jobs) if (share := blocks[n::jobs])]
    while workers:
        ready = wait([worker.results for worker in workers], timeout=1.0)
        for worker in list(workers):
            lost = ""
            if worker.results in ready:
                try:
                    total.add(worker.results.recv())
                    continue
                except EOFError:
                    worker.process.join()
                    if worker.process.exitcode:
                        lost = f"the process ended with exit code {worker.process.exitcode}"
            elif _is_stuck(worker):
                worker.process.kill()
                worker.process.join()
                lost = f"no progress for {HANG_SECONDS} s"
            else:
                continue
            workers.remove(worker)
            if lost:
                finding = _lost(target, seed, worker, lost)
                total.findings.append(finding)
                rest = worker.blocks[worker.blocks.index(finding.block) + 1 :]
                if rest:
                    workers.append(_started(target, seed, rest))
    return total


def _started(target: Target, seed: int, blocks: range) -> _Worker:
    context = get_context("fork")
    results, sending = context.Pipe(duplex=False)
    progress = RawArray("q", (blocks[0], 0))
    process = context.Process(target=_work, args=(target, seed, blocks, sending, progress), daemon=True)
    process.start()
    sending.close()
    return _Worker(process, results, blocks, progress, since=time.monotonic())


def _work(target: Target, seed: int, blocks: range, results: Connection[Any, Any], progress: Any) -> None:
    prepare_process()
    for block in blocks:
        results.send(run_block(target, seed, block, progress=progress))
    results.close()


def _is_stuck(worker: _Worker) -> bool:
    now = time.monotonic()
    at = (worker.progress[0], worker.progress[1])
    if at != worker.seen:
        worker.seen, worker.since = at, now
    return now - worker.since > HANG_SECONDS


def _lost(target: Target, seed: int, worker: _Worker, what: str) -> Finding:
    block, index = worker.progress[0], worker.progress[1]
    data = next(data for at, data in enumerate(inputs_of(target, seed, block)) if at == index)
    return Finding(target.name, block, index, data, what, what)
