"""A node's status in the quorum, and log lines about changes of it.

`quorum_monitor` collects the node's status once per second. `election_log` logs elections, with summaries at growing
intervals while no leader is found; `voter_change_log` logs committed voter changes, `follower_log` the voters that
stop fetching, `refusal_log` refused votes. The readiness decision itself is `quorumd.node.readiness`.
"""
