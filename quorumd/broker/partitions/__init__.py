"""The partitions with a replica on this broker.

partitions          opens the replicas that the metadata assigns to this broker; lookups and appends
hosted_partition    a replica with its log and log directory
directory_moves     moves of replicas between log directories (KIP-113)
append_result       the result of an append, which may wait for a flush
write_expiry        timeouts of appends with acks=all
partition_listener  callbacks for purgatories, fetchers and coordinators
"""
