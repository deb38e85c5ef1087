"""Replication from leaders on other brokers.

fetchers        starts and stops the fetchers as replicas become followers
fetcher         one request at a time to a leader, with all its partitions
leader_session  the fetch session with a leader (KIP-227)
leader_offsets  the first and last offset of a log, for a follower out of its range
"""
