"""The real world: the four ports on uvloop, files and a flush thread; the process around one node.

    clock, entropy, disk, network   the ports
    disk_operations                 flushes and saves: beside the event thread, or on it while the disk is quick
    job_apart, apart                a long job in a process of its own: the node's side, and that process
    admission                       limits on accepted connections
    deliberate_faults               ports that are wrong on purpose, for tests of whole processes
    daemon                          signals, logging, metrics endpoint, readiness, exit codes
    http_endpoint                   /metrics, /healthz, /readyz
    notify                          systemd's Type=notify protocol

Exit codes: 0 stopped as asked; 1 unexpected error; 2 usage or configuration; 3 the data folder cannot be used
(wrong node, wrong cluster, corrupt, locked); 4 a flush failed; 5 the address is taken; 6 a broken promise of
the protocol (the files are kept for inspection).
"""
