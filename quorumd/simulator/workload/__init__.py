"""Clients that write and read configs through the real protocol, and the history of their calls and returns.

Every key is a register or a list: both are configs, a register set with SET, a list grown with APPEND. Every
value is written once. A client does one thing at a time.

    options   how many clients do what how often
    registers, lists  the requests of one kind of key, and what an answer says
    link      a client's connection
    client    what a client does next, and how long it waits and tries
    kept_records  records of which a stock controller would write some; kept_writer lets leaders write them
    feature_operator  asks for other levels of features
    history   all operations, and the verdict over them
"""

from __future__ import annotations

from quorumd.simulator.workload.client import SimulatedClient
from quorumd.simulator.workload.history import History
from quorumd.simulator.workload.options import WorkloadOptions

__all__ = ["History", "SimulatedClient", "WorkloadOptions"]
