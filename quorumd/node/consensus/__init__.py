"""Runs the Raft engine on a real log.

`raft_runner` steps the engine and applies its effects in order; `durability_gate` holds messages until the quorum
state and the log records they depend on are durable; `voter_records` translates control records; `log_validation`
refuses records that this version does not know; `high_watermark_checkpointer` writes the high watermark.
"""
