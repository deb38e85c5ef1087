"""Connections from clients and other nodes.

`server_session` reads frames and sends responses in the order of the requests; `router` finds the handler of an API
key; `slice_scheduler` bounds the part of long tasks that one iteration of the event loop executes: `decoding_task`
decodes large requests in slices, `request_splitting` splits large controller requests, with `repeated_items` for
those with many items of one name and `error_pieces` for those that are refused as a whole, and `response_merging`
merges the responses to the parts. `authentication` runs SASL, `throttle` throttles a connection, and `fair_shares`
divides time and memory among `connections`; `context` has the parts of the node that all sessions share, and
`delegating_session` wraps another session.
"""
