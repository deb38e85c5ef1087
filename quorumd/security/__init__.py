"""Kafka's security model as decisions: who a client is, and what it may do.

credentials.py   the credentials of users: SCRAM credentials and delegation tokens
"""
