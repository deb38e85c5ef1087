"""The real world: the four ports on uvloop, files and a flush thread; the process around one node.

    clock, entropy, disk, network   the ports
    disk_operations                 flushes and saves: beside the event thread, or on it while the disk is quick
    job_apart, apart                a long job in a process of its own: the node's side, and that process
    admission                       limits on accepted connections
    deliberate_faults               ports that are wrong on purpose, for tests of whole processes
    daemon                          logging, metrics endpoint, readiness, exit codes
    signals                         what each signal does
    http_endpoint                   /metrics, /healthz, /readyz
    notify                          systemd's Type=notify protocol

The exit codes of the process are `errors.ExitCode`.
"""
