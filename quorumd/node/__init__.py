"""One running node: connects engine, log, controller and wire. Synchronous, on the four ports only.

builder            `start_node` locks and recovers the log directory, builds every part and starts it
core               the parts that need no address: log and quorum, image and controller, accepted connections
commit_listeners   forwards commits, flushes and elections to the parts, in the order of their dependencies
basics             what most other parts are built from: settings, clock, counters; the engine with its log
ports              how one node reaches the outside
node               the parts that runtime, simulator and metrics read
settings           the settings of one node
broker_settings    the settings of its broker role
leader_role        whether this node handles requests that only the leader may handle
recovered_data     what startup finds in the log directory
lifecycle          stopping, and callbacks that run only until then
graceful_shutdown  finishes proposals, hands over leadership, closes the log
maintenance        periodic checkpoints, snapshots and this node's voter record
readiness          whether the node is ready, and what it lacks
statistics         counters and histograms, read by observability
payers             the request that pays for the work of the node
tick               work that is collected during one iteration of the event loop
deadline_timer     the engine's timer
listeners          the listeners that the node has bound, by name

api/         handlers of every API, one module per family
sessions/    accepted connections, routing, work in slices
consensus/   runs the engine: effects, durability gate, quorum state, high watermark checkpoints
controller/  the controller while this node leads: sessions, leader balancing, NoOpRecords
health/      what the node reports about the quorum
identity/    log directory, cluster id, founding of a quorum
membership/  controller registration, automatic join, update of this node's voter record
peers/       connections to other nodes, discovery of addresses
snapshots/   when snapshots are built and removed, and how
state/       state machine, proposals and their callbacks on commit
wire/        flat engine messages and control records to and from their wire form
broker/      the broker role, in the same process
"""
