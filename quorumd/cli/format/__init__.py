"""`quorumd format`: format the log directories of a node.

command              the command
initial_controllers  the voters of a new quorum
initial_features     the feature levels of a new cluster
"""
