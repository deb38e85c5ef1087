"""Kafka's security model as decisions: who is at the other side, and what they may do.

credentials.py   what a node knows of users: SCRAM credentials and delegation tokens
"""
