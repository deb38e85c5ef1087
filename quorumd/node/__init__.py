"""One running node: joins engine, log, state machine and wire. Synchronous, on the four ports only.

node               wiring and the start procedure; the one object that runtime and simulator make
settings           what one node is told
opened_files       what a start finds in the data folder
identity_files     whose data folder this is, checked before anything starts
statistics         plain counters and histograms, read by observability
orderly_end        finish what is proposed, hand over leadership, tidy the folder
turn               what one turn of the loop gathers is done at its end

raft_runner        steps the engine and performs its effects, in order
durability_gate    holds messages back until the disk has what they promise
voter_records      control records of the engine <-> batches in the log
cluster_identity   the cluster id: made by the first leader, validated ever after
quorum_messages        flat engine values <-> Vote, BeginQuorumEpoch, EndQuorumEpoch
voter_messages         flat engine values <-> AlterQuorum, AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter
fetch_messages         flat engine values <-> FetchQuorumRecords, stock Fetch

peers              outgoing connections to other nodes: version negotiation, time-outs
peer_requests      requests of the engine to other nodes, their answers back as events; stock leaders get stock Fetch
address_book       where nodes are reached
membership         what a node does by itself for its place in the cluster, now and then
own_registration   registers this node at the active controller (KIP-919)
leader_request     what a node requests of its leader by itself, one request at a time
auto_join          requests a vote for this node (KIP-1186)
own_voter          tells a leader that hears of no gossip where this voter is (UpdateRaftVoter)
founding           who may found a quorum, and why a node is not part of one
discovery          gossip of addresses (DiscoverBrokers) and the search for a leader

state_machine      applies committed records (leader: its own at append, with undo) to the image
proposals          gathers records of many requests into one batch, answers them when it is committed
metadata_writer    records into image and log
committed_answers  answers that leave once what they say is committed, or confirmed as a read
committed_image    when what the image of this node tells is committed
bootstrap_records  what a new log begins with, as format decided it

voter_requests     AlterQuorum, AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter -> VoterChangeRequested, and their
answers
encoded_topics     topics of a large Metadata answer in bytes, a slice at a time
topic_messages         topics of the image -> Metadata, DescribeTopicPartitions
registered_brokers brokers of the image -> Metadata, DescribeCluster
snapshot_messages      flat engine values <-> FetchSnapshot
snapshot_builder   (previous snapshot, log) -> a newer snapshot: files only, runs in a process of its own
batch_application  a batch applied to an image; what cannot be is told with its offset
known_log          whether all records of a log, or of what a leader sends, are known
snapshot_loading   which snapshot a node begins with; one as an image, a few records at a time
snapshot_keeper    when a snapshot is built, which segments and snapshots are removed
high_watermark_saver  when the high watermark goes to disk

incoming_connections  the sessions of those who connected
server_session     one incoming connection: frames in, answers out in order
request_handlers   makes the *_requests of a node
request_router     API key -> handler; which APIs are spoken here
*_requests         one file a family of APIs: quorum, cluster, config, topic, controller
controller_requests  every API of the controller, by the table of controller_apis
alter_partition_order  which AlterPartition requests count: those a broker has not given up
controller_runner  the controller inside a node: begins and ends with leadership, fences silent brokers
leader_balancer    gives leadership back to preferred leaders, in steps
idle_log           a NoOpRecord where nothing is written
forwarding         Envelope: a broker-type request that reached a non-leader goes to the leader
authorization      who may do what
answer_errors      which errors an answer tells
error_answers      how each API tells an error
"""
