"""Clients that write and read configs through the real protocol, and the history of their calls and returns.

Every key is a register or a list: both are configs, a register written with SET, a list with APPEND. Every
value is written once. A client has at most one call in progress.

    options   number of clients, and rates of their operations
    register_requests, list_requests  requests and responses of each kind of key
    request_connection  a client's connection
    client    a client: its operations, timeouts and retries
    request_loop  a client that sends one request at a time: the base of the next ones
    cluster_reader  reads the cluster with the requests of cluster_reads
    log_consumer  fetches the metadata log
    config_administrator  changes configs, also in the odd ways of odd_configs
    access_client  changes ACLs, quotas and credentials, and has only the rights granted, with access_requests
    kept_records  opaque records like those of stock controllers; kept_records_writer lets leaders write them
    feature_operator  requests feature levels; feature_options has the initial levels and request rate
    history   all operations, and their check
"""

from __future__ import annotations

from quorumd.simulator.workload.client import SimulatedClient
from quorumd.simulator.workload.history import History
from quorumd.simulator.workload.options import WorkloadOptions

__all__ = ["History", "SimulatedClient", "WorkloadOptions"]
