"""Observes nodes after every event and passes the observations to the checkers.

`inspector` compares a node with its previous state, `log_mirror` and `durable_files` track logs and small files as
read and as durable, `readiness_probe`, `pause_probe` and `election_probe` check the behaviour of running nodes.
Observing does not affect a run.
"""
