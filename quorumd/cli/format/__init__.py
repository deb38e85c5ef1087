"""`quorumd format`: prepare the log directory of a node.

command                 the command
initial_controllers     the voters of a new quorum
initial_features        the feature levels of a new cluster
"""
