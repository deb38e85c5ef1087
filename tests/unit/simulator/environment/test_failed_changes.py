"""Writes and other changes of the simulated disk fail once, and faults strike at a rename."""

from __future__ import annotations

from errno import EIO, ENOSPC
from functools import partial
from random import Random

import pytest

from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process


def make_disk(heap: EventHeap) -> SimulatedDisk:
    disk = SimulatedDisk(heap, Random(0))
    disk.mount(Process("node", 1, 1))
    return disk


def write(disk: SimulatedDisk, path: str) -> None:
    file = disk.open(path, create=True)
    file.write_at(0, b"abc")
    file.close()


@pytest.mark.parametrize("code", [EIO, ENOSPC])
def test_one_change_fails(code: int) -> None:
    heap = EventHeap()
    disk = make_disk(heap)
    outcomes: list[str | int | None] = []

    def try_write(name: str) -> None:
        try:
            write(disk, f"/{name}")
            outcomes.append(name)
        except OSError as error:
            outcomes.append(error.errno)

    disk.fail_change(4, code)
    for name in "abc":
        heap.call_later(0.0, partial(try_write, name), b"write")
    while heap.step(10.0):
        pass
    assert outcomes == ["a", code, "c"]
    assert disk.change_failed
    assert "/b" in disk.contents()
    disk.mount(Process("node", 1, 2))
    assert not disk.change_failed
    disk.fail_change(1)
    disk.repair()
    heap.call_later(0.0, partial(try_write, "d"), b"write")
    heap.step(20.0)
    assert outcomes[-1] == "d"


def test_fault_strikes_before_the_rename_of_one_file() -> None:
    disk = make_disk(EventHeap())
    struck: list[list[str]] = []
    for name in ("/a", "/b.part", "/c.part"):
        write(disk, name)
    disk.before_rename(".part", lambda: struck.append(disk.list_directory("/")))
    for name in ("/a", "/b.part", "/c.part"):
        disk.rename(name, name + ".new")
    assert struck == [["a.new", "b.part", "c.part"]]


def test_fault_strikes_before_a_file_is_opened() -> None:
    disk = make_disk(EventHeap())
    struck: list[list[str]] = []
    disk.before_open(".part", lambda: struck.append(disk.list_directory("/")), opens=2)
    for name in ("/a", "/b.part", "/c", "/d.part"):
        assert disk.awaits_open(".part")
        write(disk, name)
    assert struck == [["a", "b.part", "c"]]
    assert not disk.awaits_open(".part")
    write(disk, "/e.part")
    assert len(struck) == 1
    disk.before_open(".part", lambda: struck.append([]))
    disk.repair()
    write(disk, "/e.part")
    assert len(struck) == 1


def test_several_changes_in_a_row_fail() -> None:
    heap = EventHeap()
    disk = make_disk(heap)
    outcomes: list[str] = []

    def try_write(name: str) -> None:
        try:
            write(disk, f"/{name}")
            outcomes.append(name)
        except OSError:
            outcomes.append(f"no {name}")

    disk.fail_change(3, count=2)
    for name in "abcd":
        heap.call_later(0.0, partial(try_write, name), b"write")
    while heap.step(10.0):
        pass
    assert outcomes == ["a", "no b", "no c", "d"]
