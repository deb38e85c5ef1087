"""Handlers of the APIs that a node serves, one module per family.

    quorum            Vote, BeginQuorumEpoch, EndQuorumEpoch, the fetches, DescribeQuorum
    voters            changes of the voter set
    voter_messages    conversion between their messages and values of the engine
    controller        the APIs of the controller
    controller_table  the planner and rules of each API of the controller
    large_requests    large requests to the controller, executed in parts
    cluster           ApiVersions, Metadata, DescribeCluster
    topics            DescribeTopicPartitions
    topic_listing     the topics in responses to Metadata
    configs           DescribeConfigs and ListConfigResources
    own_configs       the configs that a node adds to descriptions of itself
    security          reads of ACLs, quotas, SCRAM credentials and delegation tokens
    sasl              SASL requests on connections without SASL
    describe_node     DescribeNode
    endpoints         the endpoints of other nodes, by listener name
    authorization     authorization of every request
    rights            the ACL operations that requests require
    purgatory         responses that wait until their content is committed
    forwarding        requests sent to the leader in an Envelope
    envelopes         forwarded requests, unwrapped on the leader
    sliced_responses  responses that are described in slices
    error_responses   the error response of every API
    families          the list of all families
    context           the parts of a node that the families share

To add a controller API, add a row to `controller_table`; to add another API, add a handler to its family. Both need
a rule in `rights`; an API of the controller, or one that is forwarded, needs an error builder in `error_responses`.
`quorumd.broker.api` maps topics and brokers to responses.
"""
