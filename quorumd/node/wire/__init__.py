"""Translation between the engine's flat messages and Kafka's nested ones, used by `peers` and `api`.

`quorum_messages` translates Vote, BeginQuorumEpoch and EndQuorumEpoch, `fetch_messages` FetchQuorumRecords and Fetch,
`snapshot_messages` FetchSnapshot.
"""
