"""The node and the cluster that a log directory belongs to.

`identity_files` reads and checks meta.properties and quorum-state before a node starts; `cluster_identity` holds
the cluster id, adopted from the first committed voter record and validated from then on; `founding` decides which
nodes may found a quorum and explains why a node is not part of one.
"""
