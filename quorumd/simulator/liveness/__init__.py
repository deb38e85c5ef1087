"""Conditions within a bounded time after the last fault: `stable_leadership` (a leader is elected and stays),
`convergence` (checkpoints, idle records, a last voter change), `membership` (registered controllers, auto join),
`access` and `administration` (requests through every node, repeated by `repeated_request` until they succeed),
`logins` (with every password and token), `peer_logins` (nodes renew theirs), `growth` (files and objects of a
node)."""
