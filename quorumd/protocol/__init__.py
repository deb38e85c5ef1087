"""Kafka's language, pure: bytes in, values out, and back. No sockets, no files.

    primitives      varints, compact strings, tagged fields, MalformedMessage on anything odd
    wire            the base of generated messages
    messages/       generated from schemas/ by scripts/generate_messages.py: a module per message
    codec           encode(message, version) -> bytes and decode(cls, version, data) -> message, in which every
                    fault is one MalformedMessage that names message, version and offset
    apis            what this code speaks: API keys, names, version ranges, which are forwardable
    framing         length-prefixed frames with a ceiling
    connection      ServerConnection and ClientConnection: headers, correlation, order
    handshake       version negotiation
    record_batch    RecordBatch v2: encode, headers, CRC-32C, records
    metadata_record frames of metadata records: (frame version, api key, version, body)
    json_values     messages as JSON says them
    control_record  keys and values of control records 2 to 6
    layouts         the same layouts declared with construct: readable description and independent oracle

Departures from the KIP-595 draft of June 2020, and why
    1. Control record ids and bodies are those of shipped Kafka (2 LeaderChange ... 6 KRaftVoters): the draft's
       ids collide with them, and a stock reader would halt. A VoterAssignment is a KRaftVoters record whose
       tagged fields 10000 (ClusterId) and 10001 (TargetVoters, nullable array of {VoterId}) carry the rest.
    2. Vote, BeginQuorumEpoch, EndQuorumEpoch and DescribeQuorum are the shipped messages at keys 52 to 55. The
       draft's EndQuorumEpoch.ReplicaId is tagged field 10000 of v1, DescribeQuorum's TargetVoters is tagged
       field 10000 of the partition. BeginQuorumEpoch says in tagged field 10000 when the leader started, as
       DiscoverBrokers does: a follower that has an older address of it takes the newer one.
    3. FetchQuorumRecords, DiscoverBrokers and AlterQuorum, which Kafka never shipped, have private API keys
       1001, 1002 and 1003. FetchQuorumRecords has the flat form of the drafts before topics and partitions
       were added: there is one log, and the nesting was a tenth of what a single commit costs. It says
       ReadRound in both directions, so that a leader can tell a fetch sent after its answer from an older one
       (read-index). DiscoverBrokers also carries directory ids (tagged), and in its answer, tagged 10000 to
       10003, who answers, with which data folder, what it has of a quorum, and with whom it may found one.
       AlterQuorum's answer carries the leader and a text for people (tagged).
       DescribeNode (1004) is quorumd's own: what every node, with a leader or without, reports of itself.
    4. NOT_FOLLOWER, which has no Kafka number, is 1001 and never appears in an answer that a stock client parses.
       INVALID_QUORUM_STATE has none either: the draft has it in the answers to BeginQuorumEpoch and
       EndQuorumEpoch, which are shipped messages, and Kafka says INVALID_REQUEST there.
    5. A fetch at a diverged position is answered with NONE and the diverging epoch, as Kafka ships it, not with
       OFFSET_OUT_OF_RANGE.
    6. quorum-state is one JSON object in camelCase with `data_version` and all fields of the draft, and the
       directory id voted for; and, until committed voters are known, `founders`: with which data folders of which
       nodes this one may found a quorum, an empty list for never.
    7. Pre-vote (KIP-996), check-quorum and directory ids (KIP-853) are in from the start.

One departure from Kafka's metadata records: PartitionRecord and PartitionChangeRecord say OriginalReplicas in
tagged field 10000 of every version, the replicas before the reassignment under way, in their order. What Kafka
can tell of them, the replicas less those that join, has lost their order, and with it the preferred leader; after
a reassignment that replaced another it may hold replicas of the abandoned target too. Only the originals
themselves let a cancel return to what was there. Other readers skip the tag.

One addition to Kafka's answers: DescribeCluster tells of a registered broker what no public answer can carry, in
tagged fields 10000 to 10003: its epoch, whether it is in controlled shutdown, how many partitions it leads, and all
its listeners. Only whoever asks for that, in tagged field 10000 of the request, is told: not every reader skips tags.
"""
