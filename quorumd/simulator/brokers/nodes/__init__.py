"""Nodes with the broker role, as they ship, under the simulator: their settings, observation, clients and histories.

roles      the settings of the role
observed   the replicas of a running broker, as checkers read them
probe      looks at a broker after each event of its node
fleet      all of them, with their clients and administrators
clients    connections of producers and consumers
replica_moves  moves between log directories
producers, transactional_producer, consumers, groups  the clients
histories  what the clients saw, and what must hold for it
"""
