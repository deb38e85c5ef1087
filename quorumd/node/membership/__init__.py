"""The requests by which a node maintains its membership in the cluster.

`controller_registration` registers it as a controller (KIP-919), `auto_join` requests a vote (KIP-1186) and
`voter_endpoint_update` updates its endpoint in the voter record (KIP-853); `manager` runs them.
"""
