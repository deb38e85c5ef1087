"""`quorumd quorum`: describe the quorum and change its voters.

group     the command group
describe  state and replication of the quorum
alter     a target set of voters, and its progress
voters    adding and removing one voter (KIP-853)
"""
