"""Clients: registers and lists, retried appends, and the check of their histories."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.ports import Connection
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.linearizability import Operation
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.report import Report
from quorumd.simulator.simulation import Simulation
from quorumd.simulator.workload import History, WorkloadOptions
from quorumd.simulator.workload.client import SimulatedClient


def history_of(*operations: Operation) -> History:
    history = History(lambda value: None, lambda value: None)
    history.operations.extend(operations)
    return history


def test_register_that_loses_a_write_is_reported_with_its_last_operations() -> None:
    history = history_of(
        Operation(1, "write", "key.0", "w1-1;", 0.0, 1.0),
        Operation(2, "read", "key.0", None, 2.0, 3.0),
    )
    with pytest.raises(InvariantViolation, match=r"linearizable.*key\.0[\s\S]*client 2 read"):
        history.judge()


def test_list_that_loses_or_duplicates_a_value_is_reported() -> None:
    append = Operation(1, "append", "list.0.0", "w1-1;", 0.0, 1.0)
    for seen in ((), ("w1-1;", "w1-1;"), ("w9-9;",)):
        with pytest.raises(InvariantViolation, match=r"list\.0\.0"):
            history_of(append, Operation(2, "read", "list.0.0", seen, 2.0, 3.0)).judge()
    history_of(append, Operation(2, "read", "list.0.0", ("w1-1;",), 2.0, 3.0)).judge()


def run_with(**workload: float) -> Report:
    options = SimulationOptions(
        faults={"kill": 1.0, "partition": 1.0},
        safety_ms=5000.0,
        workload=WorkloadOptions(timeout_ms=400.0, **workload),  # type: ignore[arg-type]  # mixed values
    )
    report = Simulation(3, options).run()
    assert report.ok, str(report)
    return report


def test_clients_append_to_lists_and_retry_without_a_response() -> None:
    counters = run_with(list_share=1.0).counters
    assert counters["acknowledged appends"] == counters["acknowledged writes"] > 50
    assert counters["repeated appends"] > 0
    assert counters["completed reads"] > 20
    assert run_with(list_share=1.0, append_attempts=1).counters["repeated appends"] == 0


def test_registers_and_lists_can_be_mixed() -> None:
    counters = run_with(list_share=0.5).counters
    assert 0 < counters["acknowledged appends"] < counters["acknowledged writes"]
    assert run_with().counters["acknowledged appends"] == 0


class SilentNetwork:
    """Connections that are never made."""

    def __init__(self) -> None:
        self.connections = 0

    def connect(self, host: str, port: int, connection: Connection, listener: str = "") -> None:
        self.connections += 1


def test_stopped_client_is_idle_once_its_operation_ended_and_begins_no_other() -> None:
    heap, network, process = EventHeap(), SilentNetwork(), Process("client")
    options = WorkloadOptions(timeout_ms=400.0, list_share=1.0, read_share=0.0, append_attempts=2)
    history = History(lambda value: None, lambda value: None)
    client = SimulatedClient(1, heap, network, process, Random(1), options, history, [("10.0.0.1", 9092)])
    client.start()
    while network.connections == 0:
        heap.step(1000.0)
    client.running = False
    assert not client.is_idle, "its append waits for a response"
    while heap.step(5000.0):
        assert client.is_idle == (heap.now_ms >= 800.0)
    assert client.is_idle
    assert network.connections == options.append_attempts


def test_client_that_is_stopped_between_operations_stays_idle() -> None:
    heap, network, process = EventHeap(), SilentNetwork(), Process("client")
    history = History(lambda value: None, lambda value: None)
    client = SimulatedClient(
        1, heap, network, process, Random(1), WorkloadOptions(), history, [("10.0.0.1", 9092)]
    )
    client.start()
    client.running = False
    while heap.step(5000.0):
        pass
    assert client.is_idle
    assert network.connections == 0
