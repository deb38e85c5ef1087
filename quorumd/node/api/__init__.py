"""Handlers of the APIs that a node serves, one module per family.

    quorum            Vote, BeginQuorumEpoch, EndQuorumEpoch, the fetches, DescribeQuorum
    voters            changes of the voter set
    voter_messages    their messages, from and to values of the engine
    controller        the APIs of the controller
    controller_table  the planner and rules of each of them
    large_requests    large ones, executed in parts
    cluster           ApiVersions, DescribeCluster, DiscoverBrokers
    topics            Metadata and DescribeTopicPartitions
    topic_listing     the topics of a node in Metadata
    configs           DescribeConfigs and ListConfigResources
    security          reads of ACLs, quotas, SCRAM credentials and delegation tokens
    sasl              SASL requests on connections without SASL
    describe_node     DescribeNode
    endpoints         the endpoints of other nodes for clients of a listener
    authorization     authorization of every request
    rights            the ACL operations that requests require
    purgatory         responses that wait until their content is committed
    forwarding        requests sent to the leader in an Envelope
    envelopes         unwraps these on the leader
    sliced_responses  responses that are described in slices
    error_responses   the error response of every API
    families          all of them
    context           the parts of a node that they share

To add a controller API, add a row to `controller_table`; to add another API, add a handler to its family and an
error builder to `error_responses`. `quorumd.broker.api` maps topics and brokers to responses.
"""
