"""What a node does on its own for its place in the cluster: it registers as a controller (KIP-919), requests a vote
(KIP-1186), and updates its endpoint in the voter record (KIP-853).

`manager` calls each of them periodically.
"""
