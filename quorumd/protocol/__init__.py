"""Kafka's wire and record formats, without I/O.

    primitives            varints, compact strings, tagged fields; MalformedMessage for invalid bytes
    wire                  the base class of generated messages
    messages/             generated from schemas/ by scripts/generate_messages.py, one module per message
    codec                 encode(message, version) -> bytes and decode(cls, version, data) -> message; an error is a
                          MalformedMessage that names message, version and offset
    apis                  the known APIs: keys, names, version ranges, which are forwardable
    message_routes        the class of a message by API key and version
    routes                the handler of each API, the origin of a request and the session that it responds through
    stepped_task          runs the steps of a generator in slices
    response_task         builds and encodes a large response in slices
    encoded_items         a response with a long list, encoded piece by piece
    response_errors       the error codes in a response; responses with nothing but an error
    throttle_time         the throttle time in an encoded response
    config_resource_type  the types of resources that have configs
    endpoint_type         the types of endpoints that DescribeCluster lists (KIP-919)
    framing               length-prefixed frames with a maximum size
    output_buffer         encoded messages that wait to be sent; their large values are not copied
    connection            ServerConnection and ClientConnection: headers, correlation ids, order
    handshake             version negotiation and authentication by SASL, for clients
    batch_header          the header of RecordBatch v2: read, encode, change; CRC-32C
    batch_scan            the batches in memory: their headers, the valid prefix
    record_batch          batches of the metadata log: encode, records
    known_records         check for unknown record types and versions, without decoding
    json_values           messages as JSON
    control_record        keys and values of control records 2 to 6
    metadata_record       frames of metadata records: (frame version, API key, version, body)
    coordinator_record    records of __consumer_offsets and __transaction_state
    layouts               the layouts of batches, records and indexes, declared with construct: a test oracle

Departures from the KIP-595 draft and additions to Kafka's messages are listed in docs/decisions.md; docs/protocol.md
has the tables of APIs, records and private fields.
"""
