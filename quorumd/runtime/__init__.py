"""The daemon process around one node, and the four ports on uvloop, files and a flush thread.

    clock, entropy, disk, network   the ports
    disk_operations                 flushes and saves, on the flush thread or inline while the disk is fast
    subprocess_job, job_process     a long job in a subprocess: the node's side and the subprocess's main program
    topic_regexes                   regular expressions of subscriptions, with RE2
    listener                        accepts connections, a few at a time
    connection_quotas, descriptors  limits on accepted connections and open files
    tls, tls_listeners, security    TLS of a connection and of the listeners; refresh of keys and tokens
    memory                          settings of the C library's allocator
    fault_injection                 faulty ports, for tests of whole processes
    daemon                          logging, metrics endpoint, readiness, exit codes
    monitor                         periodic checks: idle ratio, readiness, watchdog
    signals                         signal handlers
    stacks                          stack traces of all threads as events of a JSON log
    http_endpoint                   /metrics, /healthz, /readyz
    health_probe                    the health check of a container
    notify                          systemd's Type=notify protocol

The exit codes of the process are `errors.ExitCode`.
"""
