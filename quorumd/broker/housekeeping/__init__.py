"""The periodic maintenance of the logs of a broker, and their closing at shutdown.

housekeeping  the timers of everything below, and of shrinking ISRs
checkpoints   the checkpoint files of the log directories
flusher       flushes of sealed segments, and by `flush.messages` and `flush.ms`
cleaner       retention, and compaction in a subprocess
log_closing   closing of the logs, their last checkpoints, and the clean shutdown files
"""
