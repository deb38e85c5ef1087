"""Replication from leaders on other brokers.

fetchers        starts and stops the fetchers as replicas become followers
fetcher         fetches from one leader, one request at a time for all its partitions
leader_session  the fetch session with a leader (KIP-227)
leader_offsets  the start and end of a leader's log, for a follower that is out of range
"""
