"""The simulated environment of a node: virtual time (`event_heap`), randomness (`entropy`), machine clocks
(`clock`), a disk that loses unsynced data (`disk`, `open_file`, `stored_file`, `directory`, `disk_errors`,
`disk_latency`, `countdown`), jobs in subprocesses (`subprocess_jobs`), a network that delays, partitions and breaks
connections (`network`, `stream`, `link_conditions`), and regular expressions (`topic_regexes`).

It implements the ports of `quorumd.ports` and does not depend on Raft.
"""
