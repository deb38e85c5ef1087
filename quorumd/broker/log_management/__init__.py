"""The logs of a broker: where they are, and how they are opened and deleted.

directories      the log directories, with the offsets of their checkpoint files
log_folders      the folders in a directory, one per log
log_manager      opens, deletes and closes logs, one operation at a time
topic_settings   the effective configs of a topic, as its log needs them
"""
