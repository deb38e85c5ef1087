"""The periodic work on the logs of a broker, and their closing.

housekeeping   the timers of everything below, and of shrinking ISRs
checkpoints    the checkpoint files of the log directories
flusher        sealed segments, `flush.messages` and `flush.ms`
cleaner        retention, and compaction in a subprocess
log_closing    closed logs, last checkpoints, and the mark of a clean shutdown
"""
