"""The simulated environment of a node: virtual time (`event_heap`), randomness (`entropy`), machine clocks
(`clock`), a disk that loses what was not synced (`disk`, `stored_file`, `directory`) and a network that delays,
splits and drops connections (`network`, `stream`, `link_conditions`).

It implements the ports of `quorumd.ports` and knows nothing of Raft.
"""
