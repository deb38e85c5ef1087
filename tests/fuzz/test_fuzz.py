"""A short run of the fuzzer with 200 inputs per target, and planted faults that must become findings."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from tests.fuzz.campaign import Finding, inputs_of, prepare_process, run_block, run_target
from tests.fuzz.target import Parse, Target
from tests.fuzz.targets import TARGETS

COUNT = 200
SEED = 20


@pytest.fixture(autouse=True)
def _armed() -> Iterator[None]:
    before = signal.getsignal(signal.SIGPROF)
    prepare_process(limit_memory=False)
    yield
    signal.signal(signal.SIGPROF, before)
    logging.disable(logging.NOTSET)
    gc.unfreeze()


def reported(findings: list[Finding]) -> list[str]:
    return [f"{finding.signature}, input {finding.index}: {finding.data[:80]!r}" for finding in findings]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_target_handles_some_hundred_inputs(target: Target) -> None:
    tally = run_block(target, SEED, 0, COUNT)
    assert reported(tally.findings) == []
    assert tally.inputs == COUNT
    assert tally.accepted > 0


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_seed_gives_the_same_inputs(target: Target) -> None:
    first, again, other = (list(islice(inputs_of(target, seed, 3), 50)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def target_of(parse: Parse) -> Target:
    return Target("planted", 1, lambda: [bytes(100)], lambda: parse, (ValueError,), takes_large=False)


def fail_for_ones(data: bytes) -> None:
    if 1 in data:
        raise KeyError(1)
    if data:
        raise ValueError


def spin(data: bytes) -> None:
    while True:
        pass


def take_memory(data: bytes) -> None:
    bytearray(b"x" * (64 << 20) if len(data) == 99 else b"")


def exit_for_ones(data: bytes) -> None:
    if data.startswith(b"\x01"):
        signal.raise_signal(signal.SIGKILL)


def test_exception_that_is_not_allowed_is_found() -> None:
    findings = run_block(target_of(fail_for_ones), SEED, 0, COUNT).findings
    assert {finding.signature.partition(":")[0] for finding in findings} == {"KeyError at test_fuzz.py"}
    assert all(1 in finding.data for finding in findings)


def test_hang_is_found() -> None:
    findings = run_block(target_of(spin), SEED, 0, 1).findings
    assert [finding.signature for finding in findings] == ["TooSlow at test_fuzz.py"]


def test_memory_is_found() -> None:
    """tracemalloc confirms a growth of the resident size if the input can be repeated."""
    for repeats in (True, False):
        findings = run_block(replace(target_of(take_memory), repeats=repeats), SEED, 0, 1000).findings
        assert {finding.signature for finding in findings} == {"memory of planted"}


def test_death_of_the_process_is_found_and_the_campaign_continues() -> None:
    corpus = replace(target_of(exit_for_ones), corpus=lambda: [b"\x00"])
    tally = run_target(corpus, SEED, range(2), jobs=1)
    assert [finding.signature for finding in tally.findings] == ["the process ended with exit code -9"] * 2
    assert all(finding.data.startswith(b"\x01") for finding in tally.findings)
