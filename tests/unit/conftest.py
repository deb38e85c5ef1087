"""Tests of logs run on files and on the simulator's disk: a node cannot tell them apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from quorumd.ports import Disk
from quorumd.runtime.disk import OsDisk
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process


@pytest.fixture(params=["files", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """The Disk port, twice; paths below `directory` can be used on both."""
    if request.param == "files":
        on_files = OsDisk(lambda callback: callback())
        yield on_files
        on_files.close()
    else:
        simulated = SimulatedDisk(EventHeap(), Random(1))
        simulated.mount(Process("test"))
        yield simulated


@pytest.fixture
def memory_disk() -> SimulatedDisk:
    """The simulator's disk, for its faults."""
    simulated = SimulatedDisk(EventHeap(), Random(1))
    simulated.mount(Process("test"))
    return simulated


@pytest.fixture
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory that is there, on the disk that the test uses."""
    path = f"{tmp_path}/data"
    for name in ("disk", "memory_disk"):
        if name in request.fixturenames:
            request.getfixturevalue(name).make_directory(path)
    return path
