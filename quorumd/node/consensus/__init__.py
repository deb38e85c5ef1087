"""Runs the Raft engine on a real log.

`raft_runner` steps the engine and applies its effects in order; `durability_gate` holds messages until the quorum
state and the log records they depend on are durable; `quorum_state_store` and `high_watermark_checkpointer` write the
quorum state and the high watermark; `commit_listeners` forwards commits, flushes and elections; `leader_role` decides
whether this node handles requests for the leader; `fetched_records` decodes what a follower fetches;
`voter_records` translates control records and `voter_log` keeps
cluster id and addresses consistent with them; `log_validation` rejects records that this version does not know.
"""
