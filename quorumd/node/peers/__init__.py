"""Connections and requests to other nodes.

`connection` negotiates versions and times requests out; `connections` has one per address and purpose; `client` sends
the engine's requests and returns the responses as events; `discovery` finds the addresses of nodes and `address_book`
records them; `contacts` records which peers respond; `leader_request` sends one request at a time to the leader.
"""
