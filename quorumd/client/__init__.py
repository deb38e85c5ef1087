"""The asyncio admin client that CLI, benchmarks and pipeline share.

admin                 AdminClient: one method per task
cluster_client        ClusterClient: sends a request to the leader or another node, with retries until a deadline
leader_discovery      which node to contact next, and when; the pipeline's observer uses it too
connection            one asyncio connection around protocol.connection.ClientConnection
backoff               KIP-580: min(max, uniform(0.8, 1.2) * initial * 2^n)
access                requests about ACLs, SCRAM credentials, client quotas and delegation tokens
node_views            each node's own view of the quorum, for `quorumd status`
broker_addresses      where the brokers of a cluster serve clients
security, tls, oauth  how the clients of this process connect and authenticate
load                  writes configs as a load, and measures throughput, latency and pauses
"""
