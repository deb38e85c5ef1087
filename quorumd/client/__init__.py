"""The asyncio admin client that CLI, benchmarks and pipeline share.

admin             AdminClient: one method per task
cluster_client    ClusterClient: sends a request to the leader or another node, with retries until a deadline
leader_discovery  which node to contact next, and when; the pipeline's observer uses it too
connection        one asyncio connection around protocol.connection.ClientConnection
backoff           KIP-580: min(max, uniform(0.8, 1.2) * initial * 2^n)
"""
