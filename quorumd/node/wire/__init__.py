"""Translation between the engine's flat messages and records and Kafka's nested ones.

`quorum_messages` translates Vote, BeginQuorumEpoch and EndQuorumEpoch, `fetch_messages` FetchQuorumRecords and Fetch,
`snapshot_messages` FetchSnapshot; `voter_records` translates control records, `fetched_records` the batches that a
follower fetches.
"""
