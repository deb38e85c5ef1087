"""The APIs that brokers serve to producers, consumers and other brokers.

fetch_sessions   incremental fetches (KIP-227)
"""
