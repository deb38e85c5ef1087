"""Partition reassignments with the fewest moves that balance a cluster.

make_plan(...) -> Plan: moves (schemas.PLAN_MOVES), brokers (schemas.PLAN_BROKERS), the lower bound
targets     pure: how many replicas and leaders each broker shall have
moves       pure, numpy: which replica goes where; a shard of topics at a time
leaders     pure: the order of replicas, so that preferred leaders are balanced
waves       pure: moves in portions that Kafka's limits and the brokers bear
files       the folder of a plan: JSON as Kafka's tools take it, rollback, summary
"""
