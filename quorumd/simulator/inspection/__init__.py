"""Observes nodes after every event and hands what it sees to the checkers.

`inspector` compares a node with its previous state, `log_mirror` and `durable_files` track logs and small files as
read and as durable, `readiness_probe` and `pause_probe` check the claims of running nodes. Observing changes
nothing of a run.
"""
