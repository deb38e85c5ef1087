"""A deterministic simulator: real nodes on simulated ports, in one thread, with virtual time and one seed.

environment/      the ports: virtual time, randomness, clocks, a disk and a network with faults
cluster           machines and their nodes, crashes and restarts
data_directories  data directories that operators replace, restore and confuse
options           options of one run
node_settings     the settings of the parts of every node
client_listener   the listener with SASL of nodes, and the users that log in
peer_logins       SASL between nodes
profiles/         distributions from which a seed draws its options, by name
faults/           injected faults, a class each
workload/         clients with histories of calls and returns; writers of opaque records and features
brokers/          models of brokers that replicate data under the real controllers, their clients and checkers
inspection/       observations of the nodes after every event, for the checkers
checkers/         invariants, a class each; linearizability of histories
liveness/         conditions that a cluster must meet once faults have ended
voter_sets        the voter sets that may be in effect, and whether each has enough replicas left
simulation        one run: safety phase, liveness phase, report
report            the result of a run
run               consecutive seeds
explain/          what happened in a run: timeline, sequence diagram, shorter runs with the same violation
"""
