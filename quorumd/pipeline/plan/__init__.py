"""Partition reassignments with the fewest moves that balance a cluster.

    planner.make_plan(state, changes) -> files.Plan: schemas.PLAN_MOVES, schemas.PLAN_BROKERS, and figures

state         the state that a plan starts from, as arrays
loading       reads the state from a history, directories of a log or a live cluster, and sizes from files
live_sizes    sizes that the brokers of a live cluster report
planning      all steps in their order, from a state and changes to the new replicas
planner       makes the plan, with its figures
targets       pure: the number of replicas of each broker, within the limits of racks
bound         pure: a lower bound of the number of moves
drain         pure: replicas that must leave their broker
placement     pure: which broker may take which replica
moves         pure: assigns many replicas at once
shards        pure: divides a plan into shards of topics, which are planned independently
spark_shards  shards planned by Spark
repair        pure: the last few replicas, moved along detours
exchanges     pure: replicas passed on from broker to broker; the proof that no plan needs fewer moves
leveling      pure: moves and exchanges of replicas with different weights, if bands cannot be reached
spread        pure: swaps if a broker has too many replicas of a topic
leaders       pure: the order of replicas, which balances preferred leaders
leader_paths  pure: makes preferred leaders as even as the replicas allow
choices       pure: one broker per row, each at most as often as its capacity
waves         pure: divides moves into waves within the limits of Kafka and of brokers
tables        a plan as Arrow tables, and its figures
files         the directory of a plan: Kafka's reassignment JSON, rollback, summary
comparison    compares a state with a plan
arrays        types of arrays, deterministic pseudo-random numbers
"""
