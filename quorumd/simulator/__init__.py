"""The four ports in one thread, virtual time, one seed; faults, workloads and checkers around real nodes.

event_heap      virtual time: (deadline, sequence) -> callback; the trace hash
clock, entropy, disk, network    the ports; every fault they can show is drawn from the seed
cluster         nodes, their crashes and restarts
workload        clients over the simulated network; histories of calls and returns
checkers        one class a promise, asked after every event
simulation      seed in, verdict out: safety phase, liveness phase, report
"""
