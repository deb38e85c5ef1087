"""The log directories of a broker, and the logs in them.

directories      the log directories, with the offsets of their checkpoint files
log_folders      the partition folders of a log directory
log_manager      opens, moves, deletes and closes logs, one operation at a time
topic_settings   the effective configs of a topic and its logs
"""
