"""Clients that write and read configs through the real protocol, and the history of their calls and returns.

Every key is a register or a list: both are configs, a register written with SET, a list with APPEND. Every
value is written once. A client has at most one call in progress.

    options               number of clients, and rates of their operations
    register_requests     requests and responses of registers
    list_requests         requests and responses of lists
    request_connection    a client's connection
    client                a client: its operations, timeouts and retries
    client_loop           base class of clients that connect to one node at a time
    request_loop          base class of clients that send one request at a time
    cluster_reader        reads the cluster
    cluster_reads         draws the requests of the cluster reader
    log_consumer          fetches the metadata log
    restored_copies       recovers copies of the nodes' files
    copied_disk           a copy, with a model of its log and snapshots
    copy_damages          damage to a copy
    config_administrator  changes configs
    odd_configs           draws changes of any config to any value, most of them invalid
    access_client         an administrator of ACLs, quotas and credentials, and clients with only the rights granted
    access_requests       draws the requests of both
    login_client          clients that log in with SASL and use delegation tokens, and an administrator of passwords
    login_scripts         what these clients send on a connection, and may expect
    conversation          a connection on which a script sends requests
    connection_loop       base class of clients that open one connection at a time
    careless_administrator  sends invalid requests, which must be refused
    mistakes              draws these requests
    impolite_client       pipelines, does not read, sends garbage and hangs up
    unread_responses      requests megabytes on several connections and does not read them
    kept_records          records like a stock controller's, which quorumd stores as written
    kept_records_writer   lets leaders write kept records
    feature_operator      requests feature levels
    feature_options       the initial levels and the request rate
    background            all clients except the clients of registers and lists
    history               all operations, and their check
"""

from __future__ import annotations

from quorumd.simulator.workload.client import SimulatedClient
from quorumd.simulator.workload.history import History
from quorumd.simulator.workload.options import WorkloadOptions

__all__ = ["History", "SimulatedClient", "WorkloadOptions"]
