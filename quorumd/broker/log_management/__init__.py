"""The log directories of a broker, and the logs in them.

directories            the log directories, with the offsets of their checkpoint files
partition_directory    the directory of one partition: names, opening, removal
partition_directories  the directories of all partitions, which a scan at startup finds
disk_operations        runs blocking operations one at a time, and handles their failures
log_manager            opens, replaces, deletes and closes logs
topic_settings         the effective configs of a topic and its logs
cordon_requests        requests to change `cordoned.log.dirs`, which only this broker can check
"""
