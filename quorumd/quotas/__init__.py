"""Client quotas (KIP-13, KIP-124, KIP-546, KIP-599, KIP-612), pure: the usage of each client, and for how long it is
throttled.

    rates             a rate over windows and a token bucket, with the time as argument
    entities          the quota that applies to a client, by Kafka's precedence
    client_quotas     the usage of all clients of one node
    connection_rates  the rate of new connections of a node and of each of its listeners

Times are monotonic milliseconds. Throttling itself is done by sessions, which mute a connection for the time that
a method returns.
"""
