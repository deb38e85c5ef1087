"""The controller inside a node.

`leadership` activates it when the node becomes leader and its image is complete, and deactivates it when leadership
is lost; `runner` fences brokers whose session expired and elects leaders uncleanly where allowed; `leader_balancer`
moves leadership back to preferred leaders; `no_op_writer` writes a NoOpRecord to an idle log;
`alter_partition_order` rejects AlterPartition requests from superseded connections. Decisions are made in
`quorumd.controller`; this package only schedules and writes them.
"""
