"""The partitions with a replica on this broker.

partitions           follows the metadata; the APIs find replicas and append to them here
hosted_partition     a replica with its log and log directory
append_result        the outcome of an append, and the flush that it may wait for
write_expiry         times out writes with acks=all
partition_listener   what purgatories, fetchers and coordinators are notified of
"""
