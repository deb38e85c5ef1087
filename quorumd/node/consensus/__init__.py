"""Runs the Raft engine on a real log.

`raft_runner` steps the engine and applies its effects in order; `durability_gate` holds messages until the quorum
state and the log records they depend on are durable; `quorum_state_store` and `high_watermark_checkpointer` write the
quorum state and the high watermark; `voter_log` keeps cluster id and addresses consistent with the voter records in
the log.
"""
