"""The asyncio admin client that CLI, benchmarks and pipeline share.

admin           AdminClient: finds nodes and the leader, retries with KIP-580 back-off, one method per task
connection      one asyncio connection around protocol.connection.ClientConnection
backoff         KIP-580: min(max, uniform(0.8, 1.2) * initial * 2^n)
"""
