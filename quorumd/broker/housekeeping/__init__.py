"""The periodic maintenance of a broker's logs, and the closing of the logs at shutdown.

housekeeping  the timers of the tasks below, and of shrinking ISRs
checkpoints   the checkpoint files of the log directories
flusher       flushes of sealed segments, and by `flush.messages` and `flush.ms`
cleaner       retention, and compaction in a subprocess
log_closing   closes the logs, and writes their last checkpoints and the clean shutdown files
"""
