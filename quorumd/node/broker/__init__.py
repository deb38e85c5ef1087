"""The broker role of a node: connects a broker to the node in the same process.

role                 builds the broker once the cluster id is known, and shuts it down
controlled_shutdown  controlled shutdown of the broker, within a time limit
controller_channel   requests to the active controller, by connection or within this process
local_session        the session of requests to the active controller in this process
broker_client        requests to other brokers
metadata_feed        committed batches and snapshots of the metadata log
clients              the listener for clients, and the APIs on it
large_requests       requests with many items, handled in parts
log_directories      identity and locks of the log directories
counters             counters for metrics
"""
