"""pytest plugin that measures the coverage of the pure packages: `pytest -p tests.support.branch_coverage`.

Only imports and the tests in MEASURED are traced, so that the other tests run at their usual speed. Every process
writes a file into DATA, which `scripts/check_coverage.py` reads.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from coverage import Coverage

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "build" / "coverage"
PACKAGES = ("raft", "log", "controller", "protocol", "broker")
MEASURED = tuple(
    ROOT / "tests" / name
    for name in (
        "unit/raft",
        "unit/log",
        "unit/controller",
        "unit/protocol",
        "unit/broker",
        "unit/node/broker",
        "unit/node/api/test_rights.py",
        "unit/node/api/test_topics.py",
        "unit/node/sessions/test_request_splitting.py",
        "property/test_classic_group_invariants.py",
        "property/test_consumer_group_invariants.py",
        "property/test_migration_invariants.py",
        "property/test_partition_frames.py",
        "property/test_partition_log_state_machine.py",
        "property/test_replica_invariants.py",
        "paper",
        "scenarios",
        "simulation/test_broker_races.py",
    )
)

_coverage = Coverage(
    data_file=str(DATA / "data"),
    data_suffix=f"{os.getpid()}",
    branch=True,
    config_file=False,
    include=[f"{ROOT}/quorumd/{package}/*" for package in PACKAGES],
    omit=[f"{ROOT}/quorumd/protocol/messages/*"],
)
# The process that distributes the tests runs none itself.
_coverage.set_option("run:disable_warnings", ["no-data-collected"])
DATA.mkdir(parents=True, exist_ok=True)
_coverage.start()


def pytest_collection_finish() -> None:
    """Stop once the tests, and with them the packages, are imported."""
    _coverage.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Trace a test if it is in one of MEASURED."""
    if not any(item.path.is_relative_to(directory) for directory in MEASURED):
        return (yield)
    _coverage.start()
    try:
        return (yield)
    finally:
        _coverage.stop()


def pytest_sessionfinish() -> None:
    """Write the data of this process."""
    _coverage.stop()
    _coverage.save()
