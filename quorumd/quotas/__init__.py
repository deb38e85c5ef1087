"""Client quotas (KIP-13, KIP-124, KIP-546, KIP-599, KIP-612), without I/O: the usage of each client, and for how long
it is throttled.

    rates             a windowed rate and a token bucket
    entities          the quota that applies to a client, by Kafka's precedence
    client_quotas     the usage of all clients of one node
    connection_rates  the rate of new connections of a node and of each of its listeners

Times are monotonic milliseconds. The sessions of the node throttle: they mute a connection for the time that a method
returns.
"""
