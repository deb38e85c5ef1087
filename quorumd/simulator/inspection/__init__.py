"""Observes nodes after every event and passes the observations to the checkers.

`inspector` compares a node with its previous state; `log_mirror` and `durable_files` track logs and small files, as
nodes read them and as they are durable. `readiness_probe`, `pause_probe`, `election_probe`, `leader_probe`,
`apply_probe` and `acl_probe` check the behaviour of running nodes, `wire_checks` the messages between nodes.
Observing does not affect a run.
"""
