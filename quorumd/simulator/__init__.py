"""The four ports in one thread, virtual time, one seed; faults, workloads and checkers around real nodes.

event_heap      virtual time: (deadline, sequence) -> callback; the trace hash
entropy         independent random streams from one seed; the Entropy port
clock           the Clock port: every machine's clock has its own offset and rate
disk            the Disk port; stored_file: unsynced writes that a crash loses, tears and reorders;
                directory: names that vanish until their folder is synced
network         the Network port: blocked ways, refusals, machines without power; stream: one direction
cluster         machines and the nodes on them, their crashes and restarts
folders         data folders replaced, restored and mixed up by operators
faults          one class a fault: `available`, `inject`; a file for each family
workload        clients over the simulated network; histories of calls and returns
brokers         models of brokers that replicate data under the real controllers; their users and their checkers
profile         what a seed draws its options from; profiles: all of them by name, those of trouble with the quorum
                in quorum_profiles, those with brokers in broker_profiles
drawing         the options that it draws
log_mirror      the checkers' copies of logs: as read, and as certain to survive
durable_files   small files as they become durable
inspector       looks at a node after every event and asks the checkers
checkers        one class a promise; linearizability of histories
options         what one seed simulates; report: what came out
calm            what a cluster does about its leader when nothing goes wrong any more
settled         what a whole cluster does soon when nothing goes wrong any more
simulation      seed in, verdict out: safety phase, liveness phase, report
run             many seeds
shrink          the shortest run that still breaks the same promise
timeline        what happened in a run, entry by entry; wire_tap: the messages of it
sequence_diagram  a timeline as one HTML page; diagram_page: how it looks, and what hides in it
"""
