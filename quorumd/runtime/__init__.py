"""The daemon process around one node, and the four ports on uvloop, files and a flush thread.

    clock, entropy, disk, network   the ports
    disk_operations                 flushes and saves, on the flush thread or inline while the disk is fast
    subprocess_job, job_process     a long job in a subprocess: the node's side and the subprocess's main program
    topic_regexes                   regular expressions of subscriptions, with RE2
    listener, null_connection       accepts connections, a few at a time; their Connection until TLS is established
    link                            an established connection, between the event loop and the node
    send_queue                      what a connection has to send, in files or in memory
    disconnects                     closes the connections that clients have ended, a few at a time
    connection_quotas, descriptors  limits on accepted connections and open files
    tls, tls_listeners, security    TLS of a connection and of the listeners; refresh of keys and tokens
    next_iteration                  calls back once in the next iteration of the event loop
    tls_records                     received ciphertext, divided into records that are decrypted a few at a time
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
