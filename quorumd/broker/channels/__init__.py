"""The connections of a broker, as protocols that a node implements.

controller_channel  to the active controller
broker_client       to other brokers
"""
