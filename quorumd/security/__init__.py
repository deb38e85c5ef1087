"""Kafka's security model as decisions: who a client is, and what it may do.

credentials.py   what a node knows of users: SCRAM credentials and delegation tokens
"""
