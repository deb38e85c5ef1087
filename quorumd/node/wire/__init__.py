"""Raft messages between the engine's flat values and Kafka's nested messages, used by both `peers` and `api`:
`quorum_messages` (Vote, BeginQuorumEpoch, EndQuorumEpoch), `fetch_messages` (FetchQuorumRecords, Fetch) and
`snapshot_messages` (FetchSnapshot).."""
