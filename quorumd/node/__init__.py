"""One running node: joins engine, log, state machine and wire. Synchronous, on the four ports only.

node            wiring and the start procedure; the one object that runtime and simulator make
settings        what one node is told
statistics      plain counters and histograms, read by observability
raft_runner     steps the engine and performs its effects, in order (the durability gate)
raft_wire       flat engine values <-> Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchQuorumRecords
peers           outgoing connections to other nodes: version negotiation, time-outs, back-off
discovery       gossip of addresses (DiscoverBrokers) and the search for a leader
proposals       gathers records of many requests into one batch, answers them when it is committed
state_machine   applies committed records (leader: its own at append, with undo) to the image
request_router  API key -> handler; who may be answered here, who is forwarded, who is refused
*_requests      one file a family of APIs: quorum, cluster, config
forwarding      Envelope: a broker-type request that reached a non-leader goes to the leader
"""
