"""Connections and requests to other nodes.

`connection` negotiates versions and times requests out; `client` sends the engine's requests and returns the
responses as events; `address_book` and `discovery` know where nodes are reached; `contacts` records which peers
respond; `leader_request` sends one request at a time to the leader.
"""
