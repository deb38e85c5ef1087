"""A node's status in the quorum, and log lines about changes of it.

`quorum_monitor` collects the node's status once per second and logs voter changes, lagging followers and refused
votes; `election_log` logs elections, with summaries at growing intervals while no leader is found. The readiness
decision itself is `quorumd.node.readiness`.
"""
