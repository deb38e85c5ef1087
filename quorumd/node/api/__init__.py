"""Handlers of the APIs that a node serves, one module per family: `quorum` (Vote, BeginQuorumEpoch, EndQuorumEpoch,
the fetches, DescribeQuorum), `voters`, `cluster`, `configs`, `topics`, `controller` and `describe_node`.

`families` lists them; each is built from one `ApiContext` (`context`). The mapping between image and response is
in `*_messages` modules here, or in `quorumd.broker.api` for topics and brokers. `controller_table` lists every
controller API with its planner and authorization; `purgatory` holds responses until their content is committed;
`forwarding` sends requests to the leader in an Envelope, which `envelopes` unwraps there; `error_responses` builds
the error response of any API. To add a controller API, add a row to `controller_table`; to add another API, add a
handler to its family and an error builder to `error_responses`.
"""
